#include "kv/prefix_content.h"

#include <xxhash.h>

#include <algorithm>
#include <type_traits>

namespace patchbay {
namespace {

template <class T>
uint64_t hash_of(const std::vector<T> &values, uint64_t seed) {
  static_assert(std::has_unique_object_representations_v<T>, "equal values have equal bytes");
  return XXH3_64bits_withSeed(values.data(), values.size() * sizeof(T), seed);
}

/// Walks over what tokens wear.
class WornReader {
 public:
  explicit WornReader(std::span<const WornFrom> worn) : worn_(worn) {}

  /// `pos` never falls.
  [[nodiscard]] const Sha256Digest &at(uint32_t pos) {
    while (i_ < worn_.size() && worn_[i_].first <= pos) ++i_;
    return i_ == 0 ? k_base : worn_[i_ - 1].digest;
  }
  /// Where the run after the last asked one begins.
  [[nodiscard]] uint32_t next_first(uint32_t end) const {
    return i_ < worn_.size() ? std::min(worn_[i_].first, end) : end;
  }

 private:
  static constexpr Sha256Digest k_base{};
  std::span<const WornFrom> worn_;
  size_t i_ = 0;
};

}  // namespace

uint32_t n_common(const ContentView &one, const ContentView &other) {
  const auto [mine, theirs] = std::ranges::mismatch(one.tokens, other.tokens);
  const auto n_alike = static_cast<uint32_t>(mine - one.tokens.begin());
  WornReader worn_by_one(one.worn);
  WornReader worn_by_other(other.worn);
  uint32_t pos = 0;
  while (pos < n_alike && worn_by_one.at(pos) == worn_by_other.at(pos))
    pos = std::min(worn_by_one.next_first(n_alike), worn_by_other.next_first(n_alike));
  return pos;
}

PrefixContent::PrefixContent(const ContentView &view) {
  WornReader worn(view.worn);
  for (const int32_t token : view.tokens) push_back(token, worn.at(n_tokens()));
}

void PrefixContent::push_back(int32_t token, const Sha256Digest &worn) {
  if (worn_.empty() || worn_.back().digest != worn) worn_.push_back({n_tokens(), worn});
  tokens_.push_back(token);
}

void PrefixContent::append(const PrefixContent &more) {
  const uint32_t n_before = n_tokens();
  for (const auto &[first, digest] : more.worn_) {
    if (worn_.empty() || worn_.back().digest != digest) worn_.push_back({n_before + first, digest});
  }
  tokens_.insert(tokens_.end(), more.tokens_.begin(), more.tokens_.end());
}

PrefixContent PrefixContent::slice(uint32_t first, uint32_t n_tokens) const {
  PrefixContent part;
  if (n_tokens == 0) return part;
  const uint32_t end = first + n_tokens;
  part.tokens_.assign(tokens_.begin() + first, tokens_.begin() + end);
  auto run = std::ranges::upper_bound(worn_, first, {}, &WornFrom::first) - 1;
  for (; run != worn_.end() && run->first < end; ++run)
    part.worn_.push_back({std::max(run->first, first) - first, run->digest});
  return part;
}

uint64_t PrefixContent::hash(uint64_t seed) const { return hash_of(worn_, hash_of(tokens_, seed)); }

}  // namespace patchbay
