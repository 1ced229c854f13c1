#include "engine/service_counters.h"

#include <gmock/gmock.h>

#include "lora/adapter.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::Key;

std::shared_ptr<const Adapter> adapter(std::string name, unsigned char digest) {
  auto made = std::make_shared<Adapter>();
  made->name = std::move(name);
  made->digest = {0xAB, digest};
  return made;
}

Request of_tenant(std::string tenant) { return {.tenant = std::move(tenant)}; }

constexpr auto k_count_out = [](ServiceStats &stats) { ++stats.n_tokens_out; };

TEST(ServiceCounters, ARequestCountsForItsTenantAndEachAdapterThatItWears) {
  ServiceCounters services;
  Request request = of_tenant("t");
  const auto one = adapter("one", 1);
  request.spans = {{0, {{one, 0.5F}, {adapter("off", 2), 0}}},
                   {4, {{one, 1}, {adapter("two", 3), 1}}}};
  services.open(request).count(k_count_out);
  services.open(of_tenant("t")).count(k_count_out);
  EngineStats stats;
  services.copy_to(stats);
  EXPECT_EQ(stats.tenants["t"].n_tokens_out, 2U);
  EXPECT_THAT(stats.adapters,
              ElementsAre(Key("ab01000000000000"), Key("ab03000000000000"), Key("base")));
  EXPECT_EQ(stats.adapters["ab01000000000000"].n_tokens_out, 1U);
  EXPECT_EQ(stats.adapters["ab01000000000000"].name, "one");
  EXPECT_EQ(stats.adapters["base"].n_tokens_out, 1U);
}

TEST(ServiceCounters, PublishedIsWhatACopyShows) {
  ServiceCounters services(2);
  EngineStats published;
  const auto expect_same = [&] {
    services.publish(published);
    EngineStats copied;
    services.copy_to(copied);
    ASSERT_EQ(published.tenants.size(), copied.tenants.size());
    for (const auto &[name, tenant] : copied.tenants)
      EXPECT_EQ(published.tenants[name].n_tokens_out, tenant.n_tokens_out) << name;
    EXPECT_EQ(published.adapters.size(), copied.adapters.size());
  };
  for (int round = 0; round < 20; ++round) {
    auto ticket = services.open(of_tenant(std::to_string(round % 5)));
    ticket.count(k_count_out);
    if (round % 3 == 0) expect_same();
    ticket.count(k_count_out);
    services.close(ticket);
    if (round % 4 == 0) expect_same();
  }
  expect_same();
}

TEST(ServiceCounters, ANameThatWasDroppedAndCameBackIsPublished) {
  ServiceCounters services(1);
  EngineStats published;
  const auto visit = [&](const char *tenant) {
    auto ticket = services.open(of_tenant(tenant));
    services.close(ticket);
  };
  visit("a");
  services.publish(published);
  visit("b");
  visit("a");
  services.publish(published);
  EXPECT_THAT(published.tenants, ElementsAre(Key("a")));
}

TEST(ServiceCounters, TheLastActiveAreKeptAndThoseWithOpenRequests) {
  ServiceCounters services(2);
  auto open = services.open(of_tenant("open"));
  for (const char *name : {"a", "b", "c", "b", "d"}) {
    auto ticket = services.open(of_tenant(name));
    services.close(ticket);
  }
  EngineStats stats;
  services.copy_to(stats);
  EXPECT_THAT(stats.tenants, ElementsAre(Key("b"), Key("d"), Key("open")));
}

}  // namespace
}  // namespace patchbay
