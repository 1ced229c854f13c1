#include "server/adapter_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace patchbay {
namespace {

AdapterChoice refuse(ErrorCode code, std::string message, std::string param) {
  AdapterChoice choice;
  choice.error.emplace();
  choice.error->error.code = code;
  choice.error->error.message = std::move(message);
  choice.error->param = std::move(param);
  return choice;
}

/// "base:adapter" with the base's own name in front, which may hold colons itself.
std::optional<std::string> without_base(const std::string &model, const std::string &base) {
  const std::string prefix = base + ":";
  if (!model.starts_with(prefix) || model.size() == prefix.size()) return std::nullopt;
  return model.substr(prefix.size());
}

/// The same whether or not there is such an adapter: who may not use it learns nothing of it.
AdapterChoice refuse_key(std::string_view who, std::string field) {
  return refuse(ErrorCode::permission_denied,
                fmt::format("this key may not use the adapter {}", who), std::move(field));
}

std::string shown(const ListedAdapter &listed) {
  return listed.id ? fmt::format("with id {}", *listed.id) : fmt::format("'{}'", listed.name);
}

asio::awaitable<std::optional<RegisteredAdapter>> find_listed(Service &service,
                                                              ListedAdapter listed) {
  if (listed.id) co_return service.registry.find(*listed.id);
  auto found = co_await service.loader.find_or_load(std::move(listed.name));
  co_return found ? std::optional(std::move(*found)) : std::nullopt;
}

/// The listed ones, in the order of the request.
asio::awaitable<AdapterChoice> choose_listed(Service &service, Principal principal,
                                             std::vector<ListedAdapter> listed) {
  AdapterChoice choice;
  for (const auto &one : listed) {
    const std::string who = shown(one);
    if (!one.id && !principal.may_wear(one.name)) co_return refuse_key(who, "lora");
    const auto entry = co_await find_listed(service, one);
    if (one.id && !principal.may_wear(entry ? entry->name : "")) co_return refuse_key(who, "lora");
    if (!entry) {
      co_return refuse(ErrorCode::invalid_argument,
                       fmt::format("lora: there is no adapter {}", who), "lora");
    }
    const auto is_same = [&](const WornEntry &other) { return other.entry.id == entry->id; };
    if (std::ranges::any_of(choice.worn, is_same)) {
      co_return refuse(ErrorCode::invalid_argument,
                       fmt::format("lora: adapter {} is there twice", who), "lora");
    }
    const float strength = one.strength.value_or(entry->strength);
    choice.worn.push_back({.entry = *entry, .strength = strength});
  }
  co_return choice;
}

/// What requests wear that say nothing.
AdapterChoice choose_defaults(Service &service, const Principal &principal) {
  AdapterChoice choice;
  for (auto &[entry, strength] : service.registry.defaults()) {
    if (!principal.may_wear(entry.name)) {
      return refuse(ErrorCode::permission_denied,
                    "this key may not use all adapters that requests wear which name none: "
                    "\"lora\": [] is the base alone",
                    "lora");
    }
    choice.worn.push_back({.entry = std::move(entry), .strength = strength});
  }
  return choice;
}

/// A `model` that names an adapter and a list that says something else.
bool agree(const std::vector<WornEntry> &listed, const RegisteredAdapter &named) {
  return listed.size() == 1 && listed.front().entry.id == named.id;
}

}  // namespace

void read_adapter_names(JsonFields &fields, AdapterWish &wish) {
  const auto take = [&](const std::string &field, const std::optional<std::string> &name) {
    if (!name || name->empty()) return;
    if (wish.adapter && *wish.adapter != *name)
      fields.refuse(field, wish.adapter_field + "'s adapter", Json(*name));
    wish.adapter_field = field;
    wish.adapter = name;
  };
  take("adapter_id", fields.text("adapter_id"));
  take("lora_path", fields.text("lora_path"));
  const Json *request = fields.object("lora_request");
  if (request == nullptr) return;
  JsonFields inner(*request, "lora_request");
  const auto name = inner.text("lora_name");
  if (!name) inner.refuse("lora_name", "an adapter's name", *request);
  take("lora_request.lora_name", name);
  if (inner.error() != nullptr) fields.take_error(*inner.error());
}

AdapterWish read_adapter_wish(JsonFields &fields) {
  AdapterWish wish;
  wish.model = fields.text("model");
  read_adapter_names(fields, wish);
  const Json *list = fields.array("lora");
  if (list == nullptr) return wish;
  wish.lora.emplace();
  for (const Json &item : *list) {
    JsonFields one(item, "lora[]");
    ListedAdapter listed;
    listed.id = one.integer("id", 0, std::numeric_limits<int64_t>::max());
    const auto name = one.text("name");
    listed.name = name.value_or("");
    constexpr double k_most = std::numeric_limits<float>::max();
    const auto scale = one.number("scale", -k_most, k_most);
    if (scale) listed.strength = static_cast<float>(*scale);
    if (one.error() == nullptr && listed.id.has_value() == name.has_value())
      one.refuse("", "an object with either id or name", item);
    if (one.error() != nullptr) {
      fields.take_error(*one.error());
      return wish;
    }
    wish.lora->push_back(std::move(listed));
  }
  return wish;
}

asio::awaitable<AdapterChoice> choose_adapters(Service &service, Principal principal,
                                               AdapterWish wish) {
  AdapterChoice choice;
  if (wish.lora) choice = co_await choose_listed(service, principal, *wish.lora);
  if (choice.error) co_return choice;
  choice.model = service.model_id;

  std::string name = wish.adapter.value_or("");
  std::string field = wish.adapter_field;
  if (name == service.model_id) name.clear();
  const bool is_adapter = wish.model && *wish.model != service.model_id;
  if (is_adapter && !name.empty() && *wish.model != name) {
    co_return refuse(ErrorCode::invalid_argument,
                     fmt::format("model names '{}' and {} '{}'", *wish.model, field, name), field);
  }
  if (is_adapter) {
    field = "model";
    name = *wish.model;
  }
  if (name.empty()) {
    if (wish.lora) co_return choice;
    choice = choose_defaults(service, principal);
    choice.model = service.model_id;
    co_return choice;
  }
  const auto inner = without_base(name, service.model_id);
  if (!principal.may_wear(name) && !(inner && principal.may_wear(*inner)))
    co_return refuse_key(fmt::format("'{}'", name), field);
  auto entry = co_await service.loader.find_or_load(name);
  if (!entry && inner) entry = co_await service.loader.find_or_load(*inner);
  if (!entry) {
    const bool is_unknown = entry.error().code == ErrorCode::not_found;
    const std::string message =
        is_unknown ? fmt::format("The model `{}` does not exist.", name) : entry.error().message;
    co_return refuse(entry.error().code, message, field);
  }
  if (!principal.may_wear(entry->name)) co_return refuse_key(fmt::format("'{}'", name), field);
  if (wish.lora && !agree(choice.worn, *entry)) {
    co_return refuse(ErrorCode::invalid_argument,
                     fmt::format("{} names the adapter '{}' and lora lists others", field, name),
                     "lora");
  }
  choice.model = name;
  if (wish.lora) co_return choice;
  const float strength = entry->strength;
  choice.worn.push_back({.entry = std::move(*entry), .strength = strength});
  co_return choice;
}

}  // namespace patchbay
