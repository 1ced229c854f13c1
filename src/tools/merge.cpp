#include "tools/merge.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/replacement_file.h"
#include "tools/merge_metadata.h"
#include "tools/merged_rows.h"
#include "tools/model_writer.h"

namespace patchbay {
namespace {

void check_aloras(std::span<const MergedAdapter> adapters, bool allowed) {
  for (const auto &[adapter, strength] : adapters) {
    if (allowed || strength == 0 || adapter->invocation_tokens.empty()) continue;
    throw LoadError({.path = adapter->path,
                     .problem = "is an aLoRA, which acts from its invocation tokens on; merged, it "
                                "would act on every token",
                     .hint = "--allow-alora merges it all the same"});
  }
}

/// An adapter whose B is zero would give a copy of the base that claims to be more.
void check_effect(std::span<const MergedAdapter> adapters, const std::string &path) {
  const bool any = std::ranges::any_of(adapters, [](const MergedAdapter &one) {
    return one.strength != 0 && !one.adapter->cannot_change_output;
  });
  if (any) return;
  throw LoadError({.path = path,
                   .problem = "would be copied: there is nothing to merge",
                   .hint = "no adapter is given that can change the output"});
}

std::vector<PlannedTensor> planned(std::span<const MergedTensor> tensors) {
  std::vector<PlannedTensor> plans;
  for (const auto &tensor : tensors)
    plans.push_back({tensor.name, tensor.type, tensor.n_dims, tensor.ne});
  return plans;
}

ChangedTensor describe(const MergedTensor &tensor) {
  return {.name = tensor.name,
          .type_before = tensor.source == nullptr ? "" : ggml_type_name(tensor.source->type),
          .type_after = ggml_type_name(tensor.type),
          .size_bytes = tensor_bytes(tensor.type, tensor.ne)};
}

std::vector<std::filesystem::path> inputs_of(const LoadedModel &base,
                                             std::span<const MergedAdapter> adapters) {
  std::vector<std::filesystem::path> inputs;
  for (const auto &shard : base.file->shards()) inputs.emplace_back(shard.path());
  for (const auto &[adapter, strength] : adapters) inputs.emplace_back(adapter->path);
  return inputs;
}

/// Makes the tensors of a plan one after the other and keeps account.
class Merger {
 public:
  Merger(const LoadedModel &base, const MergePlan &plan, const MergeOptions &options,
         MergeReport &report)
      : base_(base), plan_(plan), options_(options), report_(report) {}

  std::span<const std::byte> bytes_of(size_t i_tensor) {
    const MergedTensor &tensor = plan_.tensors[i_tensor];
    release();
    std::span<const std::byte> bytes;
    if (tensor.is_copy()) {
      bytes = tensor.source->data;
    } else {
      made_ = merge_rows(tensor, base_.info.path, options_.n_threads);
      bytes = made_.bytes;
    }
    if (tensor.change != nullptr) {
      report_.changed.push_back(describe(tensor));
      report_.changed.back().relative_change = made_.relative_change;
    }
    done_bytes_ += bytes.size();
    if (options_.progress) options_.progress(done_bytes_, report_.size_bytes);
    source_ = tensor.source;
    return bytes;
  }

 private:
  /// What the last tensor took.
  void release() {
    made_ = {};
    if (source_ == nullptr) return;
    base_.file->shards()[source_->i_shard].release_pages(source_->data);
  }

  const LoadedModel &base_;
  const MergePlan &plan_;
  const MergeOptions &options_;
  MergeReport &report_;
  MergedBytes made_;
  const GgufTensor *source_ = nullptr;
  size_t done_bytes_ = 0;
};

}  // namespace

MergeReport merge(const LoadedModel &base, std::span<const MergedAdapter> changing,
                  std::span<const MergedAdapter> merged, const std::filesystem::path &output,
                  const MergeOptions &options) {
  check_aloras(merged, options.allow_alora);
  check_effect(changing, base.info.path);
  const auto plan = plan_merge(base, tensor_changes(changing), options.type);
  const auto files =
      plan_files(output, merged_metadata(*base.file, merged, options.type, options.combine),
                 planned(plan->tensors), options.split_max_bytes);
  const auto inputs = inputs_of(base, merged);
  for (const auto &file : files) check_not_input(file.path, inputs);
  MergeReport report{.n_tensors = plan->tensors.size(), .notes = plan->notes};
  for (const auto &file : files) {
    report.files.push_back(file.path.string());
    report.size_bytes += file.head.file_bytes();
  }
  if (options.dry_run) {
    for (const auto &file : files) const ReplacementFile could_be_written(file.path);
    for (const auto &tensor : plan->tensors) {
      if (tensor.change != nullptr) report.changed.push_back(describe(tensor));
    }
    return report;
  }
  Merger merger(base, *plan, options, report);
  write_files(files, [&](size_t i_tensor) { return merger.bytes_of(i_tensor); });
  return report;
}

}  // namespace patchbay
