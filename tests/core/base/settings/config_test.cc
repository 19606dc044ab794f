#include "core/base/settings/config.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/core/base/environment.h"

namespace ronde {

using test::environment_of;

TEST_CASE("config: nothing set is a job of one rank with the documented defaults") {
  const auto config = config_from(environment_of({}));
  REQUIRE(config.ok());
  CHECK(config->size == 1);
  CHECK(config->fusion_threshold_bytes == (std::size_t{128} << 20));
}

TEST_CASE("config: a value that does not parse names variable, value and what is allowed") {
  const auto config = config_from(environment_of({{"RONDE_FUSION_THRESHOLD", "lots"}}));
  const std::string message = config.status().message();
  CHECK(config.status().code() == Code::kInvalidArgument);
  CHECK(message.find("RONDE_FUSION_THRESHOLD=\"lots\"") != std::string::npos);
  CHECK(message.find("64K") != std::string::npos);
}

TEST_CASE("config: a number that counts no bytes is refused by its own unit") {
  const auto config = config_from(environment_of({{"RONDE_CACHE_CAPACITY", "abc"}}));
  CHECK(config.status().message() ==
        "RONDE_CACHE_CAPACITY=\"abc\" is not valid; allowed: entries as a whole number from 0, or "
        "64K, 16M, 1G");
}

TEST_CASE("config: more data with the agreement than a frame holds is refused") {
  const auto with = [](const char* value) {
    return config_from(environment_of({{"RONDE_INLINE_PAYLOAD_BYTES", value}}));
  };
  CHECK(with("0")->inline_payload_bytes == 0);
  CHECK(with("16K")->inline_payload_bytes == 16384);
  CHECK(with("16385").status().message().find("from 0 to 16384") != std::string::npos);
}

TEST_CASE("config: a freeze timeout too short to prove anything is refused") {
  const auto with = [](const char* value) {
    return config_from(environment_of({{"RONDE_FREEZE_TIMEOUT_SECONDS", value}}));
  };
  CHECK(with("0")->freeze_timeout == std::chrono::seconds(0));
  CHECK(with("4")->freeze_timeout == std::chrono::seconds(4));
  CHECK(with("3").status().message().find("0, or whole s from 4") != std::string::npos);
}

TEST_CASE("config: the limit of connections is a whole number, 0 by default") {
  CHECK(Config().max_connections == 0);
  CHECK(config_from(environment_of({{"RONDE_MAX_CONNECTIONS", "7"}}))->max_connections == 7);
  for (const char* value : {"-1", "few", "1.5"}) {
    const auto config = config_from(environment_of({{"RONDE_MAX_CONNECTIONS", value}}));
    CHECK(config.status().message().find("RONDE_MAX_CONNECTIONS=\"" + std::string(value)) == 0);
  }
}

TEST_CASE("config: seconds may have a fraction, and neither a sign nor a unit") {
  const auto with = [](const char* value) {
    return config_from(environment_of({{"RONDE_RECONNECT_SECONDS", value}}));
  };
  CHECK(with("2.5")->reconnect_limit == std::chrono::milliseconds(2500));
  CHECK(setting_value(*with("2.5"), "RONDE_RECONNECT_SECONDS") == "2.5");
  CHECK(setting_value(Config(), "RONDE_RECONNECT_SECONDS") == "0");
  for (const char* wrong : {"-1", "nan", "inf", "3s", "1e9", "x"}) {
    CAPTURE(wrong);
    CHECK(with(wrong).status().message().find("from 0 to 1000000") != std::string::npos);
  }
}

TEST_CASE("config: Horovod's variables in other units and spellings") {
  const auto read = [](const char* name, const char* value) {
    return config_from(environment_of({{name, value}}));
  };
  CHECK(read("HOROVOD_LOG_LEVEL", "WARNING")->log_level == LogLevel::kWarning);
  CHECK(read("HOROVOD_LOG_LEVEL", "FATAL")->log_level == LogLevel::kError);
  CHECK(read("HOROVOD_START_TIMEOUT", "40")->start_timeout == std::chrono::seconds(40));
  CHECK(read("HOROVOD_START_TIMEOUT", "soon").status().message().find("HOROVOD_START_TIMEOUT") !=
        std::string::npos);
  CHECK(read("HOROVOD_STALL_CHECK_DISABLE", "1")->stall_warning == std::chrono::seconds(0));
  CHECK(read("HOROVOD_STALL_CHECK_DISABLE", "0")->stall_warning == Config().stall_warning);
  CHECK(read("HOROVOD_TIMELINE", "t.json")->timeline == "t.json");
  CHECK(read("HOROVOD_TIMELINE", "DYNAMIC")->timeline.empty());
  CHECK(read("RONDE_TIMELINE", "DYNAMIC")->timeline == "DYNAMIC");
}

TEST_CASE("config: a HOROVOD name is honoured where the RONDE one is unset") {
  CHECK(config_from(environment_of({{"HOROVOD_CACHE_CAPACITY", "7"}}))->cache_capacity == 7);
  CHECK(
      config_from(environment_of({{"HOROVOD_CACHE_CAPACITY", "7"}, {"RONDE_CACHE_CAPACITY", "9"}}))
          ->cache_capacity == 9);
  const auto bad = config_from(environment_of({{"HOROVOD_CACHE_CAPACITY", "x"}}));
  CHECK(bad.status().message().find("HOROVOD_CACHE_CAPACITY") != std::string::npos);
}

TEST_CASE("config: the job is read from mpirun's and torchrun's variables") {
  const auto mpi =
      config_from(environment_of({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}}));
  CHECK(mpi->rank == 2);
  CHECK(mpi->size == 3);
  const auto torch =
      config_from(environment_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}}));
  CHECK(torch->rank == 1);
  CHECK(torch->job_id.find("29500") != std::string::npos);
}

TEST_CASE("config: attempts of torchrun are different jobs") {
  const auto job_of = [](std::map<std::string, std::string> more) {
    more.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}});
    return config_from(environment_of(more))->job_id;
  };
  const auto attempt = [&](const char* agents, const char* restarts) {
    return job_of({{"GROUP_WORLD_SIZE", agents}, {"TORCHELASTIC_RESTART_COUNT", restarts}});
  };
  CHECK(attempt("1", "0") != attempt("1", "1"));
  CHECK(attempt("1", "0") != attempt("2", "0"));
  CHECK(attempt("2", "0") == attempt("2", "1"));  // each agent counts its own
  CHECK(job_of({{"WORLD_SIZE", "2"}}) != job_of({{"WORLD_SIZE", "3"}}));
  CHECK(job_of({{"TORCHELASTIC_RESTART_COUNT", "0"}}) !=
        job_of({{"TORCHELASTIC_RESTART_COUNT", "1"}}));
}

TEST_CASE("config: a rank beyond the size is an error") {
  const auto config = config_from(environment_of({{"RONDE_RANK", "4"}, {"RONDE_SIZE", "4"}}));
  CHECK(config.status().message().find("0 to 3") != std::string::npos);
  CHECK_FALSE(config_from(environment_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}})).ok());
}

TEST_CASE("config: a rank without a size, or a size without a rank, names what is missing") {
  const auto refusal = [](const std::map<std::string, std::string>& variables) {
    return config_from(environment_of(variables)).status().message();
  };
  CHECK(refusal({{"RONDE_RANK", "1"}}) == "RONDE_SIZE is not set, but the rank is 1: set both");
  CHECK(refusal({{"RONDE_SIZE", "2"}}) == "RONDE_RANK is not set, but RONDE_SIZE is 2: set both");
  CHECK(config_from(environment_of({{"RONDE_RANK", "0"}})).ok());
  CHECK(config_from(environment_of({{"RONDE_SIZE", "1"}})).ok());
  CHECK(config_from(environment_of({{"RONDE_SIZE", "2"}, {"HOROVOD_RANK", "1"}})).ok());
}

TEST_CASE("config: a variable that a program reads itself is checked, too") {
  const auto config = config_from(environment_of({{"RONDE_TRACEBACKS", "fulll"}}));
  CHECK(config.status().message() ==
        "RONDE_TRACEBACKS=\"fulll\" is not valid; allowed: short, full");
}

TEST_CASE("config: every setting writes back what it read") {
  Config config;
  REQUIRE(set_setting(config, "RONDE_FUSION_THRESHOLD", "16M").ok());
  CHECK(setting_value(config, "RONDE_FUSION_THRESHOLD") == "16777216");
  REQUIRE(set_setting(config, "RONDE_LOG_LEVEL", "debug").ok());
  CHECK(setting_value(config, "RONDE_LOG_LEVEL") == "debug");
  CHECK_FALSE(set_setting(config, "RONDE_SINGLE_COPY", "sometimes").ok());
  for (const SettingInfo& info : setting_infos()) {
    CHECK_FALSE(info.meaning.empty());
    const std::string value = setting_value(Config{}, info.name);
    Config copy;
    if (!value.empty() && value != "-1") CHECK(set_setting(copy, info.name, value).ok());
  }
}

}  // namespace ronde
