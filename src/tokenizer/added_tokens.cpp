#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"

namespace patchbay {

namespace {

bool before(const std::pair<uint8_t, uint32_t> &edge, uint8_t byte) { return edge.first < byte; }

}  // namespace

void AddedTokens::add(std::string_view text, int32_t token, bool is_control) {
  if (text.empty() || !is_valid_utf8(text)) return;
  starts_[static_cast<uint8_t>(text.front())] = true;
  uint32_t node = 0;
  for (const char c : text) node = require_child(node, static_cast<uint8_t>(c));
  nodes_[node].token = token;
  nodes_[node].is_control = is_control;
}

std::vector<Fragment> AddedTokens::partition(std::string_view text, bool parse_special) const {
  std::vector<Fragment> fragments;
  size_t text_begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Match match = longest_at(text, pos);
    if (match.size_bytes == 0) {
      ++pos;
      continue;
    }
    if (parse_special || !match.is_control) {
      if (pos > text_begin) fragments.push_back({text.substr(text_begin, pos - text_begin)});
      fragments.push_back({text.substr(pos, match.size_bytes), match.token});
      text_begin = pos + match.size_bytes;
    }
    pos += match.size_bytes;
  }
  if (text_begin < text.size()) fragments.push_back({text.substr(text_begin)});
  return fragments;
}

uint32_t AddedTokens::child(uint32_t node, uint8_t byte) const {
  const auto &children = nodes_[node].children;
  const auto found = std::lower_bound(children.begin(), children.end(), byte, before);
  return found != children.end() && found->first == byte ? found->second : 0;
}

uint32_t AddedTokens::require_child(uint32_t node, uint8_t byte) {
  if (const uint32_t known = child(node, byte); known != 0) return known;
  const auto added = static_cast<uint32_t>(nodes_.size());
  auto &children = nodes_[node].children;
  children.emplace(std::lower_bound(children.begin(), children.end(), byte, before), byte, added);
  nodes_.emplace_back();
  return added;
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, size_t pos) const {
  Match match;
  if (!starts_[static_cast<uint8_t>(text[pos])]) return match;
  uint32_t node = 0;
  for (size_t i = pos; i < text.size(); ++i) {
    node = child(node, static_cast<uint8_t>(text[i]));
    if (node == 0) break;
    if (nodes_[node].token >= 0) match = {i + 1 - pos, nodes_[node].token, nodes_[node].is_control};
  }
  return match;
}

}  // namespace patchbay
