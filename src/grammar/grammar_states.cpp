#include "grammar/grammar_states.h"

#include <algorithm>
#include <map>

#include "grammar/small_set.h"

namespace patchbay {
namespace {

// A set of places larger than that is a mistake of the grammar: each is a way to read the text.
constexpr size_t k_most_places = 1U << 16U;

uint64_t key_of(uint32_t node, uint32_t frame) { return uint64_t{node} << 32U | frame; }

}  // namespace

/// Finds the state in which some places have been reached: ends rules and begins rules until every
/// place reads a byte.
class GrammarStates::Closure {
 public:
  explicit Closure(GrammarStates &states) : states_(states), grammar_(*states.grammar_) {}

  void reach(const Place &place) {
    if (seen_.insert(key_of(place.node, place.frame))) work_.push_back(place);
  }

  State finish() {
    follow(/*pops=*/true);
    enter_rules();
    if (seen_.size() > k_most_places) states_.overflowed_ = true;
    if (states_.overflowed_) return k_dead;
    std::ranges::sort(reading_);
    std::vector<uint32_t> words{accepts_ ? 1U : 0U};
    for (const auto &[node, frame] : reading_) {
      words.push_back(node);
      words.push_back(frame);
    }
    return states_.contents_.intern(words);
  }

  /// Begins with a rule of which nothing is read yet.
  void call(uint32_t rule, const Place &then) { callers_[rank_of(rule)].push_back(then); }

 private:
  // Ranks as keys: callers come before those that they call.
  using RuleByRank = std::pair<uint32_t, uint32_t>;

  [[nodiscard]] RuleByRank rank_of(uint32_t rule) const { return {grammar_.rule(rule).rank, rule}; }

  /// Goes wherever nothing needs to be read. A rule that ends having read nothing does so where it
  /// was called, as a skip; so the places of rules that begin here do not pop.
  void follow(bool pops) {
    while (!work_.empty() && seen_.size() <= k_most_places) {
      const Place place = work_.back();
      work_.pop_back();
      const auto &[node, frame] = place;
      states_.work_ += 1;
      if (node == Grammar::k_bottom) accepts_ = true;
      if (!grammar_.bytes(node).empty()) reading_.push_back(place);
      for (const uint32_t next : grammar_.skips(node)) reach({next, frame});
      for (const auto &[rule, to] : grammar_.calls(node)) {
        callers_[rank_of(rule)].push_back({to, frame});
        if (grammar_.rule(rule).is_nullable) reach({to, frame});
      }
      if (pops && grammar_.is_end(node)) pop(frame);
    }
  }

  void pop(uint32_t frame) {
    const auto words = states_.frames_.at(frame);
    for (size_t i = 0; i < words.size(); i += 2) reach({words[i], words[i + 1]});
  }

  void enter_rules() {
    while (!callers_.empty() && seen_.size() <= k_most_places) {
      const auto first = callers_.begin();
      const uint32_t rule = first->first.second;
      const std::vector<Place> callers = std::move(first->second);
      callers_.erase(first);
      reach({grammar_.rule(rule).start, frame_of(callers)});
      follow(/*pops=*/false);
    }
  }

  /// A caller that can do nothing but end after the call is left out: what comes after it comes
  /// next. So lists written as right recursion need no more memory than repetitions.
  uint32_t frame_of(const std::vector<Place> &callers) {
    std::vector<Place> after;
    for (const auto &[node, frame] : callers) {
      if (after.size() > k_most_places) states_.overflowed_ = true;
      if (states_.overflowed_) break;
      if (!grammar_.only_ends(node)) {
        after.push_back({node, frame});
        continue;
      }
      const auto words = states_.frames_.at(frame);
      for (size_t i = 0; i < words.size(); i += 2) after.push_back({words[i], words[i + 1]});
    }
    states_.work_ += callers.size() + after.size();
    std::ranges::sort(after);
    const auto repeated = std::ranges::unique(after);
    after.erase(repeated.begin(), repeated.end());
    std::vector<uint32_t> words;
    for (const auto &[node, frame] : after) {
      words.push_back(node);
      words.push_back(frame);
    }
    return states_.frames_.intern(words);
  }

  GrammarStates &states_;
  const Grammar &grammar_;
  SmallSet seen_;
  std::vector<Place> work_;
  std::vector<Place> reading_;
  std::map<RuleByRank, std::vector<Place>> callers_;
  bool accepts_ = false;
};

GrammarStates::GrammarStates(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {
  clear();
}

void GrammarStates::clear() {
  frames_ = {};
  contents_ = {};
  drop_rows();
  overflowed_ = false;
  const std::array<uint32_t, 1> nothing{0};
  (void)contents_.intern(nothing);  // k_dead
  start_ = enter_root();
}

void GrammarStates::drop_rows() {
  rows_.clear();
  runs_.clear();
  n_rows_ = 0;
  n_runs_ = 0;
}

GrammarStates::State GrammarStates::enter_root() {
  // The frame of nothing, below the bottom; then the root's, after which the bottom is reached.
  const uint32_t none = frames_.intern({});
  Closure closure(*this);
  const Place bottom{Grammar::k_bottom, none};
  closure.call(grammar_->root(), bottom);
  if (grammar_->rule(grammar_->root()).is_nullable) closure.reach(bottom);
  return closure.finish();
}

GrammarStates::State GrammarStates::close(std::span<const Place> reached) {
  if (reached.empty()) return k_dead;
  Closure closure(*this);
  for (const Place &place : reached) closure.reach(place);
  return closure.finish();
}

const GrammarStates::Row &GrammarStates::row(State state) {
  if (state >= rows_.size()) rows_.resize(contents_.size());
  if (rows_[state] == nullptr) {
    auto computed = compute_row(state);
    ++n_rows_;
    rows_[state] = std::move(computed);
  }
  return *rows_[state];
}

/// Bytes between two neighbouring borders of edges lead to the same places.
std::unique_ptr<const GrammarStates::Row> GrammarStates::compute_row(State state) {
  const auto words = contents_.at(state);
  const std::vector<uint32_t> places(words.begin() + 1, words.end());
  std::bitset<257> borders;
  for (size_t i = 0; i < places.size(); i += 2) {
    for (const auto &edge : grammar_->bytes(places[i])) {
      borders.set(edge.first);
      borders.set(size_t{edge.last} + 1);
    }
  }
  std::array<uint8_t, 256> interval_of{};
  for (size_t byte = 1; byte < 256; ++byte)
    interval_of.at(byte) = static_cast<uint8_t>(interval_of.at(byte - 1) + (borders[byte] ? 1 : 0));
  std::vector<std::vector<Place>> reached(interval_of.back() + size_t{1});
  for (size_t i = 0; i < places.size(); i += 2) {
    for (const auto &edge : grammar_->bytes(places[i])) {
      for (size_t interval = interval_of.at(edge.first); interval <= interval_of.at(edge.last);
           ++interval) {
        reached[interval].push_back({edge.to, places[i + 1]});
        work_ += 1;
      }
    }
  }
  std::map<std::vector<Place>, State> known;
  std::vector<State> leads_to(reached.size(), k_dead);
  for (size_t interval = 0; interval < reached.size(); ++interval) {
    const auto [found, is_new] = known.try_emplace(std::move(reached[interval]), k_dead);
    if (is_new) found->second = close(found->first);
    leads_to[interval] = found->second;
  }
  auto row = std::make_unique<Row>();
  for (size_t byte = 0; byte < 256; ++byte) row->at(byte) = leads_to[interval_of.at(byte)];
  return row;
}

const GrammarStates::Run &GrammarStates::run(State state) {
  if (state >= runs_.size()) runs_.resize(contents_.size());
  if (runs_[state] == nullptr) {
    auto computed = std::make_unique<const Run>(compute_run(state));
    if (state >= runs_.size()) runs_.resize(contents_.size());
    ++n_runs_;
    runs_[state] = std::move(computed);
  }
  return *runs_[state];
}

GrammarStates::Run GrammarStates::compute_run(State state) {
  const Row &ascii = row(state);
  std::map<State, uint32_t> counts;
  for (size_t byte = 0; byte < 128; ++byte) {
    if (ascii.at(byte) != k_dead) ++counts[ascii.at(byte)];
  }
  if (counts.empty()) return {};
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto &entry) { return entry.second; });
  Run run{.next = most->first};
  for (size_t byte = 0; byte < 128; ++byte) run.ascii[byte] = ascii.at(byte) == run.next;
  run.beyond_ascii = reads_beyond_ascii(state, run.next);
  return run;
}

GrammarStates::State GrammarStates::common_step(State state, uint8_t first, uint8_t last) {
  const Row &from = row(state);
  const State to = from.at(first);
  for (size_t byte = first; byte <= last; ++byte) {
    if (from.at(byte) != to) return k_dead;
  }
  return to;
}

/// By the table of well-formed UTF-8 (Unicode 15, table 3-7).
bool GrammarStates::reads_beyond_ascii(State state, State next) {
  struct Lead {
    uint8_t first, last;  // bytes that begin a character
    uint8_t low, high;    // of the second byte
    int n_more;           // bytes after the second
  };
  constexpr std::array<Lead, 8> k_leads{{{0xC2, 0xDF, 0x80, 0xBF, 0},
                                         {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                         {0xE1, 0xEC, 0x80, 0xBF, 1},
                                         {0xED, 0xED, 0x80, 0x9F, 1},
                                         {0xEE, 0xEF, 0x80, 0xBF, 1},
                                         {0xF0, 0xF0, 0x90, 0xBF, 2},
                                         {0xF1, 0xF3, 0x80, 0xBF, 2},
                                         {0xF4, 0xF4, 0x80, 0x8F, 2}}};
  return std::ranges::all_of(k_leads, [&](const Lead &lead) {
    State at = common_step(state, lead.first, lead.last);
    if (at != k_dead) at = common_step(at, lead.low, lead.high);
    for (int i = 0; i < lead.n_more && at != k_dead; ++i) at = common_step(at, 0x80, 0xBF);
    return at == next;
  });
}

size_t GrammarStates::size_bytes() const { return frames_.size_bytes() + contents_.size_bytes(); }

size_t GrammarStates::row_bytes() const {
  return n_rows_ * sizeof(Row) + n_runs_ * sizeof(Run) +
         (rows_.size() + runs_.size()) * sizeof(void *);
}

}  // namespace patchbay
