#pragma once

namespace patchbay {

/// What a loader of adapters may do beyond what is safe for everybody.
struct AdapterLoadOptions {
  /// Whole new matrices (PEFT's modules_to_save) are served as changes of full rank; else refused,
  /// for their memory and time are a base weight's.
  bool allow_full_modules = false;
  /// The base is the residual model that PiSSA and its like have trained on: their pairs are taken.
  bool base_is_residual = false;
};

}  // namespace patchbay
