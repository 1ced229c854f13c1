// embed MODEL PROMPT [ADAPTER]: continues a prompt, wearing an adapter when one is named.
#include <exception>
#include <iostream>
#include <patchbay/patchbay.hpp>

int main(int argc, char **argv) try {
  if (argc < 3) {
    std::cerr << "usage: embed MODEL PROMPT [ADAPTER]\n";
    return 2;
  }
  auto model = patchbay::Model::load(argv[1]);
  patchbay::GenerateOptions options{.n_predict = 32, .sampling = {.temperature = 0}};
  if (argc > 3) options.adapters.push_back({.adapter = model->load_adapter(argv[3])});
  patchbay::Session session(model);
  session.generate(argv[2], options, [](std::string_view text) {
    std::cout << text << std::flush;
    return true;
  });
  std::cout << '\n';
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
