#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "jinja/value.h"

namespace patchbay::jinja {

/// What can come to hold itself, and so has to be emptied when a rendering ends.
class Holder {
 public:
  Holder() = default;
  Holder(const Holder &) = delete;
  Holder &operator=(const Holder &) = delete;
  virtual ~Holder() = default;

  virtual void clear() = 0;
};

/// What one rendering has used up and may still use. One thread.
class Runtime {
 public:
  using Time = std::chrono::system_clock::time_point;

  explicit Runtime(Time now) : now_(now) {}
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;
  ~Runtime();

  [[nodiscard]] Time now() const { return now_; }

  // All throw RenderError when a limit is reached.
  void step(size_t n = 1);
  /// Counts the work of looking at all of `value`, or at that many bytes.
  void read(const Value &value) { read(value.extent().size_bytes); }
  void read(size_t size_bytes);
  /// Counts the bytes of a new value without those of its items.
  void made(const Value &value);
  void made(size_t size_bytes);

  /// Empties `holder` when the rendering ends.
  void keep(std::shared_ptr<Holder> holder);
  /// Ends the last keep() when nothing but the caller holds that holder any more.
  void release(const Holder &holder);

 private:
  Time now_;
  size_t n_steps_ = 0;
  size_t bytes_made_ = 0;
  std::vector<std::shared_ptr<Holder>> holders_;
};

}  // namespace patchbay::jinja
