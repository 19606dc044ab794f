// `ronde doctor`.
#include "bindings/cli/doctor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/base/settings/config.h"
#include "core/base/settings/setting_names.h"
#include "ops/compression/describe.h"
#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;

}  // namespace

TEST_CASE("doctor: it tells version, data planes, limits and which algorithm runs") {
  const Finished report = run_ronde({"doctor"});
  CHECK(report.status == 0);
  CHECK(contains(report.out, "ronde " RONDE_VERSION));
  for (const char* part : {"shm: ", "gloo: ", "mpi: ", "cuda: ", "nccl: ", "/dev/shm: ",
                           "open files: ", "allreduce"}) {
    CAPTURE(part);
    CHECK(contains(report.out, part));
  }
}

TEST_CASE("doctor: --choose names the algorithm and the communicators for one operation") {
  const std::string large = run_ronde({"doctor", "--choose", "allreduce,16M"}).out;
  CHECK(contains(large, "on one host: shm\n"));
  CHECK(contains(large, "on hosts of one rank: tcp.ring\n"));
  CHECK(contains(large, "on hosts of several ranks: hierarchical(shm, tcp.ring)\n"));
  CHECK(contains(run_ronde({"doctor", "--choose", "allreduce,4K"}).out, "transport: tree"));
  CHECK(contains(run_ronde({"doctor", "--choose", "allreduce,16M"}).out, "transport: ring"));
  CHECK(contains(run_ronde({"doctor", "--choose", "alltoall,64K", "--ranks", "16"}).out,
                 "alltoall of 65536 bytes among 16 ranks over a transport: bruck"));
  for (const std::string size : {"much", "-5", "", "99999999999999999999"}) {
    const Finished refused = run_ronde({"doctor", "--choose", "allreduce," + size});
    CHECK(contains(refused.err, "size '" + size + "'"));
    CHECK(contains(refused.err, "Run ronde doctor --help for what is allowed."));
  }
}

TEST_CASE("doctor: it tells whether profilers are told by NVTX") {
  const Finished report = Program({"env", "RONDE_NVTX=1", RONDE_PROGRAM, "doctor"}).wait();
  const auto at = report.out.find("NVTX marks for profilers");
  REQUIRE(at != std::string::npos);
  const std::string said = report.out.substr(at, 100);
  CHECK((contains(said, "on (RONDE_NVTX)") || contains(said, "not built: ")));
}

TEST_CASE("doctor: it tells which interface carries data between hosts") {
  CHECK(contains(run_ronde({"doctor"}).out, "lo (127.0.0.1)"));
  const auto with = [](const std::string& interface) {
    return Program({"env", "RONDE_NETWORK_INTERFACE=" + interface, RONDE_PROGRAM, "doctor"}).wait();
  };
  CHECK(contains(with("lo").out, "by lo, from 127.0.0.1 (RONDE_NETWORK_INTERFACE)"));
  const std::string several = with("lo,127.0.0.1").out;
  CHECK(contains(several, "by lo, from 127.0.0.1 (RONDE_NETWORK_INTERFACE)"));
  CHECK(contains(several, "by 127.0.0.1, from 127.0.0.1 (RONDE_NETWORK_INTERFACE)"));
  CHECK(contains(several, "data is spread over these by what each achieves"));
  CHECK(contains(with("nosuch0").out, "no network interface or own address \"nosuch0\""));
}

TEST_CASE("doctor: it tells whether data between hosts is encrypted") {
  CHECK(contains(run_ronde({"doctor"}).out, "not encrypted (RONDE_ENCRYPTION=on encrypts it"));
  const std::string on =
      Program({"env", "RONDE_ENCRYPTION=required", RONDE_PROGRAM, "doctor"}).wait().out;
  CHECK((contains(on, "encrypted by AES-256-GCM over tcp (RONDE_ENCRYPTION=required)") ||
         contains(on, "encrypted by ChaCha20-Poly1305 over tcp (RONDE_ENCRYPTION=required)")));
  const Finished wrong = Program({"env", "RONDE_ENCRYPTION=yes", RONDE_PROGRAM, "doctor"}).wait();
  CHECK(contains(wrong.err, "RONDE_ENCRYPTION=\"yes\" is not valid; allowed: off, on, required"));
}

TEST_CASE("doctor: --settings lists every setting with its meaning and value") {
  const Finished report =
      Program({"env", "RONDE_CACHE_CAPACITY=77", RONDE_PROGRAM, "doctor", "--settings"}).wait();
  CHECK(report.status == 0);
  for (const SettingInfo& info : setting_infos()) {
    CAPTURE(info.name);
    CHECK(contains(report.out, std::string(info.name)));
    CHECK(contains(report.out, std::string(info.meaning)));
  }
  CHECK(contains(report.out, "default \"1024\", now \"77\""));
  for (const ProgramSetting& setting : program_settings()) {
    CAPTURE(setting.info.name);
    CHECK(contains(report.out, fmt::format("{} ({})\n    {}\n", setting.info.name,
                                           setting.info.unit, setting.info.meaning)));
  }
}

TEST_CASE("doctor: --compression tells what codecs cost, what auto would choose, and why here") {
  const Finished report =
      run_ronde({"run", "-np", "2", "--", RONDE_PROGRAM, "doctor", "--compression"});
  CHECK(report.status == 0);
  for (const char* part :
       {"of memcpy", "fp16 ", "bf16 ", "int8 ", "int4 ", "onebit ", "topk ", "powersgd ",
        "auto:accuracy=safe would choose", "auto:accuracy=aggressive would choose", "100 Mbit/s",
        "25 Gbit/s", " (dense ", "Measured between these 2 ranks, data over shm",
        "dense: ranks share memory"}) {
    CAPTURE(part);
    CHECK(contains(report.out, part));
  }
}

TEST_CASE("doctor: --codecs lists the codecs in the form that is asked for") {
  const Finished text = run_ronde({"doctor", "--codecs"});
  CHECK(text.status == 0);
  CHECK(contains(text.out, codecs_as_text()));
  CHECK(run_ronde({"doctor", "--codecs", "markdown"}).out == codecs_as_markdown());
  CHECK(run_ronde({"doctor", "--codecs", "pyi"}).out == python_types());
  CHECK(contains(run_ronde({"doctor", "--codecs", "html"}).err, "text,markdown,pyi"));
}

TEST_CASE("doctor: a setting that does not parse is named") {
  const Finished report =
      Program({"env", "RONDE_CACHE_CAPACITY=many", RONDE_PROGRAM, "doctor"}).wait();
  CHECK(report.status == 2);
  CHECK(contains(report.err, "RONDE_CACHE_CAPACITY=\"many\""));
}

TEST_CASE("doctor: bytes read as people write them") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(64 << 10) == "64 KiB");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(std::uint64_t{3} << 40) == "3 TiB");
}

}  // namespace ronde
