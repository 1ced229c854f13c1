#pragma once

#include <cstdint>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/byte_reader.h"
#include "gguf/gguf_file.h"

namespace patchbay {

/// What one file (a whole model or one shard) holds; views into its mapping.
struct GgufContents {
  uint32_t version = 0;
  std::vector<GgufEntry> entries;
  std::vector<GgufTensor> tensors;  ///< in file order, i_shard 0
};

/// Reads and checks one file as GgufFile::open() promises, all but what concerns several shards.
/// Throws LoadError.
[[nodiscard]] GgufContents parse_gguf(const MappedFile &file);

/// The next `n` metadata entries: values inside the file, types known, keys valid and different
/// from each other.
[[nodiscard]] std::vector<GgufEntry> read_gguf_entries(ByteReader &in, uint64_t n);

/// The `n` tensors whose descriptions come next and whose data, at multiples of `alignment`,
/// follows in `file`.
[[nodiscard]] std::vector<GgufTensor> read_gguf_tensors(ByteReader &in, uint64_t n,
                                                        uint64_t alignment, const MappedFile &file);

}  // namespace patchbay
