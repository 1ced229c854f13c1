#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace patchbay {

/// A stretch of the input: either a token that was written out in it, or text still to be
/// tokenised.
struct Fragment {
  std::string_view text;
  int32_t token = -1;  ///< -1: text
};

/// The tokens that are found in a text before anything else happens to it: control tokens such as
/// <|im_end|> and those added by the user. Immutable once filled; any thread.
class AddedTokens {
 public:
  /// Ignores texts that are empty or not valid UTF-8: a match must never cut a character in two.
  void add(std::string_view text, int32_t token, bool is_control);

  /// Cuts `text` at the leftmost, longest added tokens. With parse_special off a control token
  /// stays part of the text around it; nothing is looked for inside of it, as in HF's
  /// AddedVocabulary. REQUIRES: valid UTF-8. The fragments view into `text`, are never empty, and
  /// joined they are `text`.
  [[nodiscard]] std::vector<Fragment> partition(std::string_view text, bool parse_special) const;

 private:
  struct Node {
    int32_t token = -1;
    bool is_control = false;
    std::vector<std::pair<uint8_t, uint32_t>> children;  // (byte, index into nodes_), sorted
  };
  struct Match {
    size_t size_bytes = 0;  // 0: none
    int32_t token = -1;
    bool is_control = false;
  };

  [[nodiscard]] uint32_t child(uint32_t node, uint8_t byte) const;
  uint32_t require_child(uint32_t node, uint8_t byte);
  [[nodiscard]] Match longest_at(std::string_view text, size_t pos) const;

  std::vector<Node> nodes_ =
      std::vector<Node>(1);         // [0] is the root and stands for "no child" as well
  std::array<bool, 256> starts_{};  // bytes that begin some token: most positions end here
};

}  // namespace patchbay
