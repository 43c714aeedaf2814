#include "watch/monitor/alert_notice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json_reader.h"
#include "trace/sample_file.h"

namespace profgpu {

namespace {

AlertNotice hot() {
  AlertNotice n;
  n.time_ns = 1'767'225'720'500'000'000;
  n.since_ns = 1'767'225'600'000'000'000;
  n.name = "hot";
  n.condition = "temperature_c > 85 for 2m";
  n.advice = "Look at the \"fan\".";
  n.quantity = "temperature_c";
  n.unit = "°C";
  n.value = 91.00049;
  n.device = "0";
  n.uuid = "GPU-1";
  n.model = "H100";
  n.host = "node1";
  return n;
}

TEST(AlertNotice, OneLineForPeople) {
  AlertNotice n = hot();
  EXPECT_EQ(alert_summary(n),
            "raised hot (warning): GPU 0 of node1: temperature_c > 85 for 2m; temperature_c is 91 °C");
  n.raised = false;
  n.value.reset();
  n.host.clear();
  EXPECT_EQ(alert_summary(n), "cleared hot (warning): GPU 0: temperature_c > 85 for 2m");
}

TEST(AlertNotice, TheRowIsJsonThatReadersOfSamplesPassOver) {
  for (const std::string device : {"0", "0:7", ""}) {
    AlertNotice n = hot();
    n.device = device;
    const std::string row = alert_row(n);
    EXPECT_TRUE(is_json(row.substr(0, row.size() - 1))) << row;
    EXPECT_EQ(std::count(row.begin(), row.end(), '\n'), 1);
    EXPECT_TRUE(looks_like_samples(row));
  }
  EXPECT_EQ(
      alert_row(hot()),
      "{\"time_ns\":1767225720500000000,\"device\":0,\"uuid\":\"GPU-1\",\"host\":\"node1\",\"alert\":{\"name\":\"hot\","
      "\"state\":\"raised\",\"severity\":\"warning\",\"condition\":\"temperature_c > 85 for 2m\","
      "\"quantity\":\"temperature_c\",\"value\":91,\"since_ns\":1767225600000000000,\"model\":\"H100\","
      "\"summary\":\"GPU 0 of node1: temperature_c > 85 for 2m; temperature_c is 91 °C\","
      "\"advice\":\"Look at the \\\"fan\\\".\"}}\n");
}

TEST(AlertNotice, TheWebhookGetsWhatAlertmanagerSends) {
  AlertNotice n = hot();
  const std::string body = alert_webhook_body(n);
  EXPECT_TRUE(is_json(body)) << body;
  for (
      const std::string part :
      {R"("status":"firing","labels":{"alertname":"hot","gpu":"0","host":"node1","model":"H100","severity":"warning","uuid":"GPU-1"})",
       R"("startsAt":"2026-01-01T00:00:00.000Z","endsAt":"0001-01-01T00:00:00Z")", R"("version":"4")"})
    EXPECT_NE(body.find(part), std::string::npos) << part << " in " << body;
  const auto fingerprint = [](const std::string& text) { return text.substr(text.find("fingerprint"), 32); };
  n.raised = false;
  EXPECT_EQ(fingerprint(alert_webhook_body(n)), fingerprint(body)) << "the same alert";
  EXPECT_NE(alert_webhook_body(n).find(R"("status":"resolved")"), std::string::npos);
  n.device = "1";
  EXPECT_NE(fingerprint(alert_webhook_body(n)), fingerprint(body));
}

TEST(AlertNotice, NamesOfDevicesCannotBreakOut) {
  AlertNotice n = hot();
  n.model = "a\"},{\"\n\x1b[31m\xff";
  EXPECT_TRUE(is_json(alert_webhook_body(n)));
  const std::string row = alert_row(n);
  EXPECT_TRUE(is_json(row.substr(0, row.size() - 1)));
}

}  // namespace

}  // namespace profgpu
