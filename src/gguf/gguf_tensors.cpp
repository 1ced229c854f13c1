#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "gguf/gguf_parse.h"

namespace patchbay {
namespace {

/// ggml_set_name() keeps one byte less than its field has and cuts the rest off in silence.
constexpr uint64_t k_max_name_bytes = GGML_MAX_NAME - 1;

/// One tensor as described in the header, and where its data begins, counted from the end of the
/// header.
struct Description {
  GgufTensor tensor;
  uint64_t offset = 0;
  uint64_t n_bytes = 0;
};

std::string_view read_name(ByteReader &in, uint64_t i) {
  const std::string item = fmt::format("tensor {}", i);
  const auto n_bytes = in.read<uint64_t>(item);
  if (n_bytes == 0 || n_bytes > k_max_name_bytes) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has a name of unsound length (or the file is damaged)",
                     .wanted = fmt::format("1 to {} bytes", k_max_name_bytes),
                     .found = std::to_string(n_bytes)});
  }
  const auto name = as_text(in.take(n_bytes, item));
  const bool has_control = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (has_control) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has control characters in its name",
                     .found = printable(name)});
  }
  return name;
}

void read_shape(ByteReader &in, GgufTensor &tensor) {
  const std::string item = printable(tensor.name);
  const auto n_dims = in.read<uint32_t>(item);
  if (n_dims < 1 || n_dims > tensor.ne.size()) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has an unsound number of dimensions",
                     .wanted = "1 to 4",
                     .found = std::to_string(n_dims)});
  }
  tensor.n_dims = static_cast<int>(n_dims);
  int64_t n_elements = 1;
  for (uint32_t dim = 0; dim < n_dims; dim++) {
    const auto n = in.read<int64_t>(item);
    if (n < 1 || __builtin_mul_overflow(n_elements, n, &n_elements)) {
      throw LoadError({.path = in.path(),
                       .item = item,
                       .problem = fmt::format("has an unsound size in dimension {}", dim),
                       .wanted = "1 or more, less than 2^63 elements in all",
                       .found = std::to_string(static_cast<uint64_t>(n))});
    }
    tensor.ne[dim] = n;
  }
}

/// Names for numbers outside ggml's list that users meet; empty for others.
std::string_view foreign_type_name(uint32_t number) {
  if (number == 142) return "PQ2_0";
  if (number == 143) return "PTQ1_0";
  return "";
}

ggml_type read_type(ByteReader &in, const std::string &item) {
  const auto number = in.read<uint32_t>(item);
  // ggml keeps the numbers of formats that it has dropped, with a size of 0.
  const bool known = number < GGML_TYPE_COUNT &&
                     ggml_type_size(static_cast<ggml_type>(number)) != 0 &&
                     ggml_blck_size(static_cast<ggml_type>(number)) != 0;
  if (known) return static_cast<ggml_type>(number);
  const auto name = foreign_type_name(number);
  throw LoadError(
      {.path = in.path(),
       .item = item,
       .problem = "has a tensor type that is not supported",
       .found = name.empty() ? std::to_string(number) : fmt::format("{} ({})", name, number)});
}

uint64_t size_bytes(const ByteReader &in, const GgufTensor &tensor) {
  const int64_t n_block = ggml_blck_size(tensor.type);
  if (tensor.ne[0] % n_block != 0) {
    throw LoadError(
        {.path = in.path(),
         .item = printable(tensor.name),
         .problem = "has rows that are no whole number of blocks",
         .wanted = fmt::format("a multiple of {} for {}", n_block, ggml_type_name(tensor.type)),
         .found = std::to_string(tensor.ne[0])});
  }
  // The product of all dimensions is known to fit.
  const auto n_blocks =
      static_cast<uint64_t>(tensor.ne[0] / n_block * tensor.ne[1] * tensor.ne[2] * tensor.ne[3]);
  uint64_t n_bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(n_blocks, uint64_t{ggml_type_size(tensor.type)}, &n_bytes);
  // Half the range is left to what ggml computes with sizes.
  if (overflow || n_bytes > static_cast<uint64_t>(INT64_MAX)) {
    throw LoadError({.path = in.path(),
                     .item = printable(tensor.name),
                     .problem = "is larger than any file",
                     .found = format_shape(tensor.ne, tensor.n_dims)});
  }
  return n_bytes;
}

Description read_description(ByteReader &in, uint64_t i, uint64_t alignment) {
  Description made;
  made.tensor.name = std::string(read_name(in, i));
  read_shape(in, made.tensor);
  const std::string item = printable(made.tensor.name);
  made.tensor.type = read_type(in, item);
  made.n_bytes = size_bytes(in, made.tensor);
  made.offset = in.read<uint64_t>(item);
  if (made.offset % alignment != 0) {
    throw LoadError({.path = in.path(),
                     .item = item,
                     .problem = "has misaligned data",
                     .wanted = fmt::format("an offset that is a multiple of {}", alignment),
                     .found = std::to_string(made.offset)});
  }
  return made;
}

/// Sets the data view of a tensor. `data_begin` may lie past the end of the file.
void place(Description &made, uint64_t data_begin, const MappedFile &file) {
  const auto bytes = file.bytes();
  const uint64_t n_data = bytes.size() - std::min<uint64_t>(data_begin, bytes.size());
  if (made.offset > n_data || made.n_bytes > n_data - made.offset) {
    throw LoadError({.path = file.path(),
                     .item = printable(made.tensor.name),
                     .problem = "has data past the end of the file, which is truncated or damaged",
                     .wanted = fmt::format("{} bytes at {}", made.n_bytes, made.offset),
                     .found = fmt::format("{} bytes of tensor data in all", n_data)});
  }
  made.tensor.data = bytes.subspan(static_cast<size_t>(data_begin + made.offset),
                                   static_cast<size_t>(made.n_bytes));
}

void check_overlaps(const std::vector<GgufTensor> &tensors, const std::string &path) {
  std::vector<const GgufTensor *> in_order;
  in_order.reserve(tensors.size());
  for (const auto &tensor : tensors) in_order.push_back(&tensor);
  std::ranges::sort(in_order, {}, [](const GgufTensor *tensor) { return tensor->data.data(); });
  for (size_t i = 1; i < in_order.size(); i++) {
    const auto before = in_order[i - 1]->data;
    if (before.data() + before.size() <= in_order[i]->data.data()) continue;
    throw LoadError({.path = path,
                     .item = printable(in_order[i]->name),
                     .problem = fmt::format("shares bytes of the file with {}",
                                            printable(in_order[i - 1]->name))});
  }
}

}  // namespace

std::vector<GgufTensor> read_gguf_tensors(ByteReader &in, uint64_t n, uint64_t alignment,
                                          const MappedFile &file) {
  // Room for a usual model; what the file says is believed one description at a time.
  constexpr uint64_t k_max_reserved = 4096;
  std::vector<Description> descriptions;
  descriptions.reserve(static_cast<size_t>(std::min(n, k_max_reserved)));
  for (uint64_t i = 0; i < n; i++) descriptions.push_back(read_description(in, i, alignment));

  const uint64_t data_begin = (in.position() + alignment - 1) / alignment * alignment;
  std::vector<GgufTensor> tensors;
  tensors.reserve(descriptions.size());
  std::unordered_set<std::string_view> names;  // views into descriptions, which no longer changes
  for (auto &made : descriptions) {
    if (!names.insert(made.tensor.name).second) {
      throw LoadError(
          {.path = file.path(), .item = printable(made.tensor.name), .problem = "is there twice"});
    }
    place(made, data_begin, file);
    tensors.push_back(made.tensor);
  }
  check_overlaps(tensors, file.path());
  return tensors;
}

}  // namespace patchbay
