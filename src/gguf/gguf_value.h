#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"

namespace patchbay {

/// Bytes of one value of a fixed-size type; 0 for strings, arrays and numbers that are no type.
[[nodiscard]] size_t size_bytes(GgufType type);

/// "u32", "string", ...; of an entry also "array of u32".
[[nodiscard]] std::string_view to_string(GgufType type);
[[nodiscard]] std::string type_name(const GgufEntry &entry);

// The value of an entry whose bytes were checked when it was read. `path` is for the message only.
// All throw LoadError when the value is of another kind or does not fit.
[[nodiscard]] uint64_t value_u64(const std::string &path, const GgufEntry &entry,
                                 uint64_t max = UINT64_MAX);
[[nodiscard]] int64_t value_i64(const std::string &path, const GgufEntry &entry);
[[nodiscard]] double value_f64(const std::string &path, const GgufEntry &entry);
[[nodiscard]] bool value_bool(const std::string &path, const GgufEntry &entry);
[[nodiscard]] std::string_view value_string(const std::string &path, const GgufEntry &entry);
[[nodiscard]] std::vector<std::string_view> value_strings(const std::string &path,
                                                          const GgufEntry &entry);
[[nodiscard]] std::vector<int64_t> value_ints(const std::string &path, const GgufEntry &entry);
[[nodiscard]] std::vector<float> value_floats(const std::string &path, const GgufEntry &entry);
[[nodiscard]] std::vector<bool> value_bools(const std::string &path, const GgufEntry &entry);

}  // namespace patchbay
