#pragma once

#include <ggml.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "lora/adapter.h"

namespace patchbay {

/// A matrix in torch order, row by row.
struct Matrix {
  int64_t n_rows = 0;
  int64_t n_columns = 0;
  std::vector<float> values = {};

  [[nodiscard]] float at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * n_columns + column)];
  }
  float &at(int64_t row, int64_t column) {
    return values[static_cast<size_t>(row * n_columns + column)];
  }
};

/// Numbers that differ from element to element and from seed to seed; multiples of 1/8 below 16, so
/// that F16 and BF16 hold them too.
inline Matrix numbered(int64_t n_rows, int64_t n_columns, int seed = 0) {
  Matrix matrix{n_rows, n_columns};
  for (int64_t i = 0; i < n_rows * n_columns; ++i) {
    matrix.values.push_back(static_cast<float>((i * 7 + seed * 13) % 127 - 63) / 8);
  }
  return matrix;
}

/// Writes safetensors images. Checks nothing itself.
class SafetensorsBuilder {
 public:
  void set(const std::string &name, const char *dtype, std::vector<int64_t> shape,
           std::string bytes) {
    tensors_[name] = {dtype, std::move(shape), std::move(bytes)};
  }
  void set(const std::string &name, const Matrix &matrix) {
    std::string bytes;
    for (const float value : matrix.values) bytes += raw_bytes(value);
    set(name, "F32", {matrix.n_rows, matrix.n_columns}, bytes);
  }
  void set_f16(const std::string &name, const Matrix &matrix) {
    std::string bytes;
    for (const float value : matrix.values) bytes += raw_bytes(ggml_fp32_to_fp16(value));
    set(name, "F16", {matrix.n_rows, matrix.n_columns}, bytes);
  }
  void set_bf16(const std::string &name, const Matrix &matrix) {
    std::string bytes;
    for (const float value : matrix.values) bytes += raw_bytes(ggml_fp32_to_bf16(value).bits);
    set(name, "BF16", {matrix.n_rows, matrix.n_columns}, bytes);
  }
  void set_f64(const std::string &name, int64_t n_rows, int64_t n_columns,
               const std::vector<double> &values) {
    std::string bytes;
    for (const double value : values) bytes += raw_bytes(value);
    set(name, "F64", {n_rows, n_columns}, bytes);
  }
  void erase(const std::string &name) { tensors_.erase(name); }
  void clear() { tensors_.clear(); }

  [[nodiscard]] std::string bytes() const {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    for (const auto &[name, tensor] : tensors_) {
      const size_t begin = data.size();
      data += tensor.bytes;
      header[name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    return raw_bytes<uint64_t>(text.size()) + text + data;
  }

 private:
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::map<std::string, Tensor> tensors_;
};

/// A PEFT folder under construction; it begins with a plain configuration of rank 2 and alpha 4 and
/// no tensor.
class PeftBuilder {
 public:
  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"r", 2},
                                   {"lora_alpha", 4},
                                   {"target_modules", nullptr},
                                   {"base_model_name_or_path", "some/tiny-8m"},
                                   {"peft_version", "0.21.2"}};
  SafetensorsBuilder tensors;

  /// The keys that PEFT writes for a linear module.
  PeftBuilder &pair(const std::string &module, const Matrix &a, const Matrix &b) {
    tensors.set("base_model.model." + module + ".lora_A.weight", a);
    tensors.set("base_model.model." + module + ".lora_B.weight", b);
    return *this;
  }
  PeftBuilder &pair(const std::string &module, int64_t n_in, int64_t n_out, int64_t n_rank = 2,
                    int seed = 0) {
    return pair(module, numbered(n_rank, n_in, seed), numbered(n_out, n_rank, seed + 1));
  }
  PeftBuilder &embedding(const std::string &module, const Matrix &a, const Matrix &b) {
    tensors.set("base_model.model." + module + ".lora_embedding_A", a);
    tensors.set("base_model.model." + module + ".lora_embedding_B", b);
    return *this;
  }

  void save(const TempDir &folder, const std::string &name = "adapter") const {
    folder.write(name + "/adapter_config.json", config.dump(2));
    folder.write(name + "/adapter_model.safetensors", tensors.bytes());
  }
  [[nodiscard]] std::shared_ptr<const Adapter> load(const BaseInfo &base) const {
    const TempDir folder;
    save(folder);
    return load_adapter(folder.path() / "adapter", base);
  }
};

/// A plain adapter on one projection, for tests that then break something.
inline PeftBuilder one_pair() {
  PeftBuilder builder;
  builder.pair("model.layers.0.self_attn.v_proj", 8, 4);
  return builder;
}

/// All numbers of a factor.
inline std::vector<float> numbers(const Factor &factor) {
  std::vector<float> values(static_cast<size_t>(factor.n_elements()));
  to_f32(factor, 0, values);
  return values;
}

/// scale B A of expert `e` (0 for a linear pair), [n_out, n_in] in torch order.
inline Matrix delta(const FactorPair &pair, int64_t e = 0) {
  const auto a = numbers(pair.a);
  const auto b = numbers(pair.b);
  const int64_t n_in = pair.a.ne[0];
  const int64_t n_out = pair.b.ne[1];
  Matrix sum{n_out, n_in, std::vector<float>(static_cast<size_t>(n_in * n_out))};
  for (int64_t o = 0; o < n_out; ++o) {
    for (int64_t i = 0; i < n_in; ++i) {
      for (int64_t k = 0; k < pair.n_rank; ++k) {
        sum.at(o, i) += pair.scale * b[static_cast<size_t>((e * n_out + o) * pair.n_rank + k)] *
                        a[static_cast<size_t>((e * pair.n_rank + k) * n_in + i)];
      }
    }
  }
  return sum;
}

/// The same from torch matrices.
inline Matrix product(const Matrix &b, const Matrix &a, float scale) {
  Matrix sum{b.n_rows, a.n_columns,
             std::vector<float>(static_cast<size_t>(b.n_rows * a.n_columns))};
  for (int64_t o = 0; o < b.n_rows; ++o) {
    for (int64_t i = 0; i < a.n_columns; ++i) {
      for (int64_t k = 0; k < a.n_rows; ++k) sum.at(o, i) += scale * b.at(o, k) * a.at(k, i);
    }
  }
  return sum;
}

}  // namespace patchbay
