#include "jinja/runtime.h"

#include <fmt/format.h>

#include "jinja/error.h"
#include "jinja/limits.h"

namespace patchbay::jinja {

namespace {

constexpr size_t k_bytes_per_step = 512;  // read about as fast as a step is done
constexpr size_t k_holder_size = 256;     // more than any of them is

}  // namespace

Runtime::~Runtime() {
  for (const auto &holder : holders_) holder->clear();
}

void Runtime::step(size_t n) {
  n_steps_ += n;
  if (n_steps_ > k_max_steps) {
    throw RenderError(Fault::limit,
                      fmt::format("it takes more than {} steps to render", k_max_steps));
  }
}

void Runtime::read(size_t size_bytes) { step(size_bytes / k_bytes_per_step); }

void Runtime::made(const Value &value) {
  if (const std::string *text = value.as_string()) {
    made(text->size());
  } else if (const auto *items = value.as_items()) {
    made(items->size() * sizeof(Value));
  } else if (const Dict *dict = value.as_dict()) {
    made(dict->entries().size() * sizeof(Dict::Entry));
  }
}

void Runtime::made(size_t size_bytes) {
  bytes_made_ += size_bytes;
  if (bytes_made_ > k_max_bytes_made) {
    throw RenderError(Fault::limit, fmt::format("it takes more than {} MiB of values to render",
                                                k_max_bytes_made >> 20));
  }
  read(size_bytes);
}

void Runtime::keep(std::shared_ptr<Holder> holder) { holders_.push_back(std::move(holder)); }

void Runtime::release(const Holder &holder) {
  constexpr long k_unused = 2;  // this and the caller's
  if (holders_.back().get() == &holder && holders_.back().use_count() == k_unused) {
    holders_.pop_back();
  } else {
    made(k_holder_size);
  }
}

}  // namespace patchbay::jinja
