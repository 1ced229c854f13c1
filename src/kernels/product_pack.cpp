#include "kernels/product_pack.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace patchbay {
namespace {

/// Codes of 32 inputs, four bytes in a word: everything here is done to four at once.
using Codes32 = std::array<uint32_t, 8>;

constexpr uint32_t k_low_nibbles = 0x0F0F0F0F;

const uint8_t *bytes_of(const std::byte *bytes) { return reinterpret_cast<const uint8_t *>(bytes); }

uint32_t word_at(const uint8_t *bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Lane `row` of a vector of 16 times `size` bytes.
void put(uint8_t *vector, int64_t row, const void *value, size_t size) {
  std::memcpy(vector + static_cast<size_t>(row) * size, value, size);
}

void put_word(uint8_t *vector, int64_t row, uint32_t word) { put(vector, row, &word, sizeof word); }

/// Two code vectors in one, the second in the high nibbles: vectors i and i + n of 2 n.
void put_nibbles(uint8_t *block, int64_t row, const uint32_t *codes, size_t n) {
  for (size_t i = 0; i < n; ++i)
    put_word(block + 64 * i, row,
             (codes[i] & k_low_nibbles) | (codes[i + n] & k_low_nibbles) << 4U);
}

void put_four_bits(uint8_t *block, int64_t row, const Codes32 &codes) {
  put_nibbles(block, row, codes.data(), 4);
}

void put_five_bits(uint8_t *block, int64_t row, const Codes32 &codes) {
  put_nibbles(block, row, codes.data(), 4);
  uint32_t fifth = 0;
  for (uint32_t i = 0; i < 8; ++i) fifth |= (codes[i] >> 4U & 0x01010101U) << i;
  put_word(block + 256, row, fifth);
}

void put_six_bits(uint8_t *block, int64_t row, const Codes32 &codes) {
  for (size_t i = 0; i < 2; ++i) {
    const uint32_t *half = codes.data() + 4 * i;
    put_nibbles(block + 192 * i, row, half, 2);
    uint32_t top = 0;
    for (uint32_t j = 0; j < 4; ++j) top |= (half[j] >> 4U & 0x03030303U) << 2 * j;
    put_word(block + 192 * i + 128, row, top);
  }
}

/// Codes whose low nibbles come first, as ggml's blocks of 32 have them.
Codes32 read_nibbles(const uint8_t *bytes) {
  Codes32 codes{};
  for (size_t i = 0; i < 4; ++i) {
    const uint32_t both = word_at(bytes + 4 * i);
    codes[i] = both & k_low_nibbles;
    codes[i + 4] = both >> 4U & k_low_nibbles;
  }
  return codes;
}

/// Bit i of `bits` is bit 4 of code i.
void add_fifth_bits(uint32_t bits, Codes32 &codes) {
  // Four neighbouring bits times this are one bit in each byte.
  constexpr uint32_t k_spread = 0x00204081;
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t four = bits >> 4 * i & 15U;
    codes[i] |= (four * k_spread & 0x01010101U) << 4U;
  }
}

constexpr int64_t block_bytes(WeightFormat format) { return layout_of(format).block_bytes; }

/// A group of blocks of one row in the file.
struct Group {
  const uint8_t *blocks = nullptr;
  int64_t n_blocks = 0;
};

// Each of these puts a group of one row into a tile: `head`, then the blocks.

void put_q4_0(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  for (int64_t j = 0; j < group.n_blocks; ++j, block += block_bytes(WeightFormat::q4_0)) {
    const uint8_t *source = group.blocks + 18 * j;
    put(head + 32 * j, row, source, 2);
    put_four_bits(block, row, read_nibbles(source + 2));
  }
}

void put_q4_1(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  put(head, row, group.blocks, 2);
  put(head + 32, row, group.blocks + 2, 2);
  // The nibbles of four bytes of the file are already those of one vector.
  for (size_t i = 0; i < 4; ++i) put_word(block + 64 * i, row, word_at(group.blocks + 4 + 4 * i));
}

void put_q5_0(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  for (int64_t j = 0; j < group.n_blocks; ++j, block += block_bytes(WeightFormat::q5_0)) {
    const uint8_t *source = group.blocks + 22 * j;
    Codes32 codes = read_nibbles(source + 6);
    add_fifth_bits(word_at(source + 2), codes);
    put(head + 32 * j, row, source, 2);
    put_five_bits(block, row, codes);
  }
}

void put_q5_1(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  Codes32 codes = read_nibbles(group.blocks + 8);
  add_fifth_bits(word_at(group.blocks + 4), codes);
  put(head, row, group.blocks, 2);
  put(head + 32, row, group.blocks + 2, 2);
  put_five_bits(block, row, codes);
}

void put_q8_0(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  for (int64_t j = 0; j < group.n_blocks; ++j, block += block_bytes(WeightFormat::q8_0)) {
    const uint8_t *source = group.blocks + 34 * j;
    put(head + 32 * j, row, source, 2);
    // Products take unsigned codes: w + 128.
    for (size_t i = 0; i < 8; ++i)
      put_word(block + 64 * i, row, word_at(source + 2 + 4 * i) ^ 0x80808080U);
  }
}

/// Scale, negated minimum and the factors of both of a super-block of Q4_K or Q5_K.
void put_scales_and_mins(const uint8_t *source, int64_t row, uint8_t *head) {
  uint16_t min = 0;
  std::memcpy(&min, source + 2, 2);
  min ^= 0x8000U;
  put(head, row, source, 2);
  put(head + 32, row, &min, 2);
  const uint8_t *packed = source + 4;
  for (size_t j = 0; j < 8; ++j) {
    // Six bits each in twelve bytes: those of the last four are in two parts.
    const uint32_t low = packed[j + (j < 4 ? 0 : 4)];
    const uint32_t high = packed[j + (j < 4 ? 4 : 0)];
    const auto scale = static_cast<uint8_t>(
        j < 4 ? low & 63U : (low & 15U) | static_cast<uint32_t>(packed[j - 4]) >> 6U << 4U);
    const auto factor = static_cast<uint8_t>(j < 4 ? high & 63U : low >> 4U | high >> 6U << 4U);
    put(head + 64 + 32 * j, row, &scale, 1);
    put(head + 80 + 32 * j, row, &factor, 1);
  }
}

/// Block j of a super-block of Q4_K or Q5_K: two blocks share 32 bytes of nibbles.
Codes32 read_shared_nibbles(const uint8_t *bytes, size_t j) {
  Codes32 codes{};
  const uint8_t *both = bytes + 32 * (j / 2);
  const uint32_t shift = j % 2 == 0 ? 0 : 4;
  for (size_t i = 0; i < 8; ++i) codes[i] = word_at(both + 4 * i) >> shift & k_low_nibbles;
  return codes;
}

void put_q4_k(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  put_scales_and_mins(group.blocks, row, head);
  for (size_t j = 0; j < 8; ++j, block += block_bytes(WeightFormat::q4_k))
    put_four_bits(block, row, read_shared_nibbles(group.blocks + 16, j));
}

void put_q5_k(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  put_scales_and_mins(group.blocks, row, head);
  const uint8_t *fifth_bits = group.blocks + 16;
  for (size_t j = 0; j < 8; ++j) {
    Codes32 codes = read_shared_nibbles(group.blocks + 48, j);
    for (size_t i = 0; i < 8; ++i)
      codes[i] |= (word_at(fifth_bits + 4 * i) >> j & 0x01010101U) << 4U;
    put_five_bits(block, row, codes);
    block += block_bytes(WeightFormat::q5_k);
  }
}

void put_q6_k(const Group &group, int64_t row, uint8_t *head, uint8_t *block) {
  put(head, row, group.blocks + 208, 2);
  for (size_t j = 0; j < 16; ++j) put(head + 64 + 16 * j, row, group.blocks + 192 + j, 1);
  for (size_t j = 0; j < 8; ++j) {
    // Of 128 numbers, quarter q has nibble q / 2 of 32 bytes out of 64, and bits 2q, 2q + 1 of 32
    // others.
    const size_t quarter = j % 4;
    const uint8_t *low = group.blocks + 64 * (j / 4) + 32 * (quarter % 2);
    const uint8_t *high = group.blocks + 128 + 32 * (j / 4);
    Codes32 codes{};
    for (size_t i = 0; i < 8; ++i) {
      const uint32_t nibbles = word_at(low + 4 * i) >> (quarter < 2 ? 0U : 4U) & k_low_nibbles;
      const uint32_t top = word_at(high + 4 * i) >> 2 * quarter & 0x03030303U;
      codes[i] = nibbles | top << 4U;
    }
    put_six_bits(block, row, codes);
    block += block_bytes(WeightFormat::q6_k);
  }
}

/// How a format lies in a file, and what puts a group of it into a tile.
struct Source {
  int64_t block_inputs;  // of one block of ggml's
  int64_t block_bytes;
  void (*put_group)(const Group &group, int64_t row, uint8_t *head, uint8_t *block);
};

Source source_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_0:
      return {32, 18, put_q4_0};
    case WeightFormat::q4_1:
      return {32, 20, put_q4_1};
    case WeightFormat::q5_0:
      return {32, 22, put_q5_0};
    case WeightFormat::q5_1:
      return {32, 24, put_q5_1};
    case WeightFormat::q8_0:
      return {32, 34, put_q8_0};
    case WeightFormat::q4_k:
      return {256, 144, put_q4_k};
    case WeightFormat::q5_k:
      return {256, 176, put_q5_k};
    case WeightFormat::q6_k:
      return {256, 210, put_q6_k};
    case WeightFormat::f16:
    case WeightFormat::bf16:
      break;
  }
  return {};
}

void pack_quantised(const PackJob &job, int64_t first_row, int64_t n_rows, uint8_t *tile) {
  const TileLayout layout = layout_of(job.format);
  const Source source = source_of(job.format);
  const int64_t n_blocks = n_product_blocks(job.n_in);
  for (int64_t block = 0; block < n_blocks; block += layout.n_group) {
    const int64_t n_group = std::min(layout.n_group, n_blocks - block);
    const int64_t offset = block * k_product_block / source.block_inputs * source.block_bytes;
    for (int64_t row = 0; row < n_rows; ++row) {
      const uint8_t *start =
          bytes_of(job.rows + static_cast<size_t>(first_row + row) * job.row_bytes);
      source.put_group({start + offset, n_group}, row, tile, tile + layout.head_bytes);
    }
    tile += layout.head_bytes + n_group * layout.block_bytes;
  }
}

/// Numbers of two bytes: `n_together` inputs of a row lie beside each other.
void pack_numbers(const PackJob &job, int64_t n_together, int64_t first_row, int64_t n_rows,
                  uint8_t *tile) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const std::byte *source = job.rows + static_cast<size_t>(first_row + row) * job.row_bytes;
    for (int64_t k = 0; k < job.n_in; ++k) {
      const int64_t i = k / n_together * k_product_tile + row;
      std::memcpy(tile + (i * n_together + k % n_together) * 2, source + k * 2, 2);
    }
  }
}

}  // namespace

void pack_tiles(const PackJob &job, int64_t first, int64_t last, uint8_t *tiles) {
  const int64_t n_bytes = tile_bytes(job.format, job.n_in);
  for (int64_t i = first; i < last; ++i, tiles += n_bytes) {
    const int64_t first_row = i * k_product_tile;
    const int64_t n_rows = std::min(k_product_tile, job.n_out - first_row);
    // What pads rows and inputs; of the rest a head may keep gaps that nobody reads.
    if (n_rows < k_product_tile || job.n_in % k_product_block != 0)
      std::memset(tiles, 0, static_cast<size_t>(n_bytes));
    if (job.format == WeightFormat::f16) {
      pack_numbers(job, 1, first_row, n_rows, tiles);
    } else if (job.format == WeightFormat::bf16) {
      pack_numbers(job, 2, first_row, n_rows, tiles);
    } else {
      pack_quantised(job, first_row, n_rows, tiles);
    }
  }
}

}  // namespace patchbay
