#include "kv/kv_tables.h"

#include <utility>

namespace patchbay {
namespace {

void undo_all(BlockTables &tables, std::span<const BlockExtension> extensions) {
  for (size_t i = extensions.size(); i > 0; --i) tables.undo(extensions[i - 1]);
}

std::optional<BlockTables> make_window(const KvSizes &sizes, uint32_t n_swa) {
  if (n_swa == 0) return std::nullopt;
  return BlockTables(sizes.n_blocks_swa, sizes.block_size);
}

}  // namespace

KvTables::KvTables(const KvSizes &sizes, uint32_t n_swa)
    : full_(sizes.n_blocks, sizes.block_size),
      window_(make_window(sizes, n_swa)),
      n_swa_(n_swa),
      prefixes_(full_, window_ ? &*window_ : nullptr, n_swa) {}

std::optional<KvTables::Reservation> KvTables::reserve(std::span<const SeqExtent> extents) {
  Reservation reservation(*this);
  for (const auto &extent : extents) {
    if (!reservation.add(extent)) return std::nullopt;
  }
  return reservation;
}

void KvTables::fork(int32_t from, int32_t to) {
  if (from == to) return;
  release(to);
  prefixes_.fork(from, to);
  full_.fork(from, to);
  if (window_) window_->fork(from, to);
}

void KvTables::release(int32_t seq_id) {
  prefixes_.release(seq_id);
  full_.release(seq_id);
  if (window_) window_->release(seq_id);
}

void KvTables::drop_out_of_window(int32_t seq_id) {
  // The next token sees itself and the n_swa - 1 tokens before it.
  const uint32_t n_next = n_tokens(seq_id) + 1;
  if (window_ && n_next > n_swa_) window_->drop_before(seq_id, n_next - n_swa_);
}

KvTables::Reservation::Reservation(Reservation &&other) noexcept
    : tables_(std::exchange(other.tables_, nullptr)),
      extents_(std::move(other.extents_)),
      full_(std::move(other.full_)),
      window_(std::move(other.window_)) {}

KvTables::Reservation::~Reservation() {
  if (tables_ == nullptr) return;
  undo_all(tables_->full_, full_);
  if (tables_->window_) undo_all(*tables_->window_, window_);
}

bool KvTables::Reservation::add(const SeqExtent &extent) {
  const auto full = extend(tables_->full_, extent);
  if (!full) return false;
  full_.push_back(*full);
  extents_.push_back(extent);
  if (!tables_->window_) return true;
  const auto window = extend(*tables_->window_, extent);
  if (window) window_.push_back(*window);
  return window.has_value();
}

std::optional<BlockExtension> KvTables::Reservation::extend(BlockTables &tables,
                                                            const SeqExtent &extent) {
  PrefixCache &prefixes = tables_->prefixes_;
  auto extended = tables.extend(extent.seq_id, extent.n_tokens);
  while (!extended && (prefixes.evict(tables) || prefixes.give_up_last(tables, extent.seq_id)))
    extended = tables.extend(extent.seq_id, extent.n_tokens);
  return extended;
}

std::vector<BlockCopy> KvTables::Reservation::copies_of(
    std::span<const BlockExtension> extensions) {
  std::vector<BlockCopy> copies;
  for (const auto &extension : extensions) {
    if (extension.copy) copies.push_back(*extension.copy);
  }
  return copies;
}

void KvTables::Reservation::commit() {
  for (const auto &extension : full_) tables_->full_.keep(extension);
  if (tables_->window_) {
    for (const auto &extension : window_) tables_->window_->keep(extension);
  }
  for (const auto &extent : extents_) {
    tables_->prefixes_.append(extent.seq_id, extent.content);
    tables_->drop_out_of_window(extent.seq_id);
  }
  tables_ = nullptr;
}

}  // namespace patchbay
