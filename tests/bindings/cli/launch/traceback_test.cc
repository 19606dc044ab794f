#include "bindings/cli/launch/traceback.h"

#include <doctest/doctest.h>

#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;
using Lines = std::vector<std::string>;

constexpr const char* kUserError =
    "Traceback (most recent call last):\n"
    "  File \"/home/me/train.py\", line 11, in <module>\n"
    "    main()\n"
    "    ^^^^^^\n"
    "  File \"/home/me/train.py\", line 5, in load\n"
    "    raise ValueError(\"bad batch 50\")\n"
    "ValueError: bad batch 50\n";

constexpr const char* kRankFailure =
    "Traceback (most recent call last):\n"
    "  File \"/home/me/train.py\", line 9, in <module>\n"
    "    ronde.allreduce(x)\n"
    "  File \"/usr/lib/python3/dist-packages/ronde/_calls/forms.py\", line 57, in blocking\n"
    "    return start(True)\n"
    "           ^^^^^^^^^^^\n"
    "ronde._errors.RankFailure: rank 1 (pid 7 on node1) died\n";

}  // namespace

TEST_CASE("traceback: the exception and the user's line") {
  const auto output = read_error(kUserError);
  REQUIRE(output);
  CHECK(output->error.sentence() == "ValueError: bad batch 50 (train.py:5)");
  CHECK_FALSE(output->error.consequence);
}

TEST_CASE("traceback: frames of Ronde are hidden, and its errors have no module") {
  const auto output = read_error(kRankFailure);
  REQUIRE(output);
  CHECK(output->error.sentence() == "RankFailure: rank 1 (pid 7 on node1) died (train.py:9)");
  CHECK(output->error.consequence);
  CHECK(output->shorter == Lines{"Traceback (most recent call last):",
                                 "  File \"/home/me/train.py\", line 9, in <module>",
                                 "    ronde.allreduce(x)",
                                 "RankFailure: rank 1 (pid 7 on node1) died"});
  CHECK(output->left_out == 3);
}

TEST_CASE("traceback: the prefix of torch.distributed is no part of it") {
  std::string text;
  for (std::string_view rest = kRankFailure; !rest.empty();) {
    const std::size_t end = rest.find('\n') + 1;
    text += "[rank10]: " + std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  CHECK(begins_error("[rank10]: Traceback (most recent call last):", ""));
  const auto output = read_error(text);
  REQUIRE(output);
  CHECK(output->error.sentence() == "RankFailure: rank 1 (pid 7 on node1) died (train.py:9)");
  CHECK(output->error.consequence);
  CHECK(output->error.of_rank == 1);
  CHECK(output->shorter.size() == 4);
}

TEST_CASE("traceback: a line that may get the prefix of torch.distributed is waited for") {
  for (const char* const line :
       {"[", "[rank", "[rank1", "[rank12]:", "[rank12]: ", "[rank1]: Tra"}) {
    CHECK_MESSAGE(may_begin_error(line), line);
  }
  for (const char* const line : {"[x", "[rank]: ", "[rank1] ready", "[rank1]: ready"}) {
    CHECK_MESSAGE(!may_begin_error(line), line);
  }
}

TEST_CASE("traceback: a user's folder called ronde is the user's") {
  const auto output = read_error(
      "Traceback (most recent call last):\n  File \"/home/me/ronde/train.py\", line 9, in "
      "<module>\n    f()\nKeyError: 'x'\n");
  REQUIRE(output);
  CHECK(output->error.sentence() == "KeyError: 'x' (train.py:9)");
  CHECK(output->shorter.size() == 4);
}

TEST_CASE("traceback: lines of Ronde's log between and within its lines are no part of it") {
  std::string text = kUserError;
  const std::string log = "[23:04:18.541] ronde 3 warning: rank 3 on h: pending: nothing\n";
  text.insert(text.find("    raise"), log);
  text.insert(text.find("bad batch 50\")"), log);
  const auto output = read_error(text + log);
  REQUIRE(output);
  CHECK(output->error.sentence() == "ValueError: bad batch 50 (train.py:5)");
  CHECK(output->trailing == 0);
}

TEST_CASE("traceback: of a chain the last exception counts, the earlier ones become a line") {
  const std::string link =
      "\nThe above exception was the direct cause of the following exception:\n\n";
  const auto output = read_error(
      std::string("Traceback (most recent call last):\n  File \"data.py\", line 3, in get\n"
                  "KeyError: 'a'\n") +
      link + kUserError);
  REQUIRE(output);
  CHECK(output->error.text == "ValueError: bad batch 50");
  CHECK(output->shorter.front() == "before that: KeyError: 'a' (data.py:3)");
}

TEST_CASE("traceback: of many frames those of the user and the innermost stay") {
  std::string text = "Traceback (most recent call last):\n";
  for (int i = 1; i <= 9; ++i) {
    text +=
        "  File \"/x/site-packages/keras/a.py\", line " + std::to_string(i) + ", in f\n    g()\n";
    if (i == 4) text += "  File \"/home/me/model.py\", line 44, in call\n    h()\n";
  }
  const auto output = read_error(text + "TypeError: no\n");
  REQUIRE(output);
  CHECK(output->error.place == "model.py:44");
  CHECK(output->shorter.size() == 6);
  CHECK(contains(output->shorter[1], "model.py"));
  CHECK(contains(output->shorter[3], "line 9"));
}

TEST_CASE("traceback: a syntax error, which has no header") {
  const std::string text =
      "  File \"/home/me/train.py\", line 3\n    foo(\n       ^\nSyntaxError: '(' was never "
      "closed\n";
  CHECK(begins_error("  File \"/home/me/train.py\", line 3", ""));
  const auto output = read_error(text);
  REQUIRE(output);
  CHECK(output->error.sentence() == "SyntaxError: '(' was never closed (train.py:3)");
}

TEST_CASE("traceback: C++ programs that end by an exception") {
  const auto output = read_error(
      "terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad "
      "batch\n");
  REQUIRE(output);
  CHECK(output->error.sentence() == "std::runtime_error: bad batch");
  const auto other = read_error(
      "terminate called after throwing an instance of 'ronde::RankFailure'\n"
      "  what():  rank 1 (pid 7 on h) died\n");
  REQUIRE(other);
  CHECK(other->error.consequence);
  const auto aborted = read_error(
      "terminate called after throwing an instance of 'ronde::Aborted'\n  what():  the job ends\n");
  REQUIRE(aborted);
  CHECK(aborted->error.sentence() == "Aborted: the job ends");
  CHECK(aborted->error.consequence);
}

TEST_CASE("traceback: a missing guard of multiprocessing is named") {
  const auto output = read_error(
      "Traceback (most recent call last):\n  File \"/home/me/a.py\", line 5, in <module>\n"
      "RuntimeError: \n        An attempt has been made to start a new process before the\n"
      "        current process has finished its bootstrapping phase.\n");
  REQUIRE(output);
  CHECK(contains(output->error.text, "if __name__ == \"__main__\":"));
}

TEST_CASE("traceback: of processes that are interrupted at once the exception is told") {
  const std::string header = "Traceback (most recent call last):\n";
  const std::string frame = "  File \"/home/me/kids.py\", line 3, in w\n    time.sleep(100)\n";
  const std::string own = "  File \"/home/me/kids.py\", line 12, in <module>\n    join()\n";
  for (const std::string& text : {header + header + header + frame + own + frame +
                                      "KeyboardInterrupt\n" + frame + "KeyboardInterrupt\n",
                                  header + "Process Process-3:\n" + header + frame +
                                      "KeyboardInterrupt\n" + header + own + "KeyboardInterrupt\n",
                                  header + own + "KeyboardInterrupt\nProcess Process-1:\n" +
                                      header + frame + "KeyboardInterrupt\n"}) {
    CAPTURE(text);
    const auto output = read_error(text);
    REQUIRE(output);
    CHECK(output->error.text == "KeyboardInterrupt");
    CHECK(output->error.place.starts_with("kids.py:"));
  }
}

TEST_CASE("traceback: what ended the program counts, not what it had caught or cleans up") {
  const std::string caught =
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n"
      "OSError: slow disk\ntrying again\n";
  const std::string cleaned = std::string("Exception ignored in: <function f at 0x7f>\n") +
                              "Traceback (most recent call last):\n  File \"b.py\", line 1, in g\n"
                              "TypeError: 'NoneType' object is not callable\n";
  const std::string thread = "Exception in thread Thread-1 (run):\n" + caught;
  for (const std::string& text : {caught + kUserError, kUserError + cleaned, kUserError + thread}) {
    CAPTURE(text);
    const auto output = read_error(text);
    REQUIRE(output);
    CHECK(output->error.sentence() == "ValueError: bad batch 50 (train.py:5)");
    CHECK(output->shorter.front() == "Traceback (most recent call last):");
    CHECK(output->shorter.back() == "ValueError: bad batch 50");
  }
}

TEST_CASE("traceback: an exception group is told by its own line") {
  const std::string header = "  + Exception Group Traceback (most recent call last):";
  CHECK(begins_error(header, "epoch 3"));
  CHECK(may_begin_error("  + Exc"));
  const auto output =
      read_error(header +
                 "\n  |   File \"/home/me/train.py\", line 7, in <module>\n  |     raise group\n"
                 "  | ExceptionGroup: two loaders (2 sub-exceptions)\n"
                 "  +-+---------------- 1 ----------------\n    | ValueError: bad batch 50\n"
                 "    +---------------- 2 ----------------\n    | KeyError: 'x'\n"
                 "    +------------------------------------\n");
  REQUIRE(output);
  CHECK(output->error.sentence() == "ExceptionGroup: two loaders (2 sub-exceptions) (train.py:7)");
  REQUIRE(output->shorter.size() == 7);
  CHECK(output->shorter[5] == "    | ValueError: bad batch 50");
  CHECK(output->full.front() == header);
}

TEST_CASE(
    "traceback: a crash that faulthandler tells, and stacks that it prints of a living rank") {
  const auto output = read_error(
      "Fatal Python error: Segmentation fault\n\nThread 0x01 (most recent call first):\n"
      "  File \"/usr/lib/python3.12/threading.py\", line 9 in wait\n\n"
      "Current thread 0x02 (most recent call first):\n"
      "  File \"/x/site-packages/numpy/core.py\", line 1 in sum\n"
      "  File \"/home/me/train.py\", line 5 in load\n"
      "  File \"/home/me/train.py\", line 11 in <module>\n\n"
      "Extension modules: numpy.core (total: 1)\n");
  REQUIRE(output);
  CHECK(output->error.sentence() == "Fatal Python error: Segmentation fault (train.py:5)");
  CHECK(begins_error("Fatal Python error: Aborted", ""));
  CHECK_FALSE(begins_error("  File \"/home/me/train.py\", line 5 in load",
                           "Thread 0x02 (most recent call first):"));
}

TEST_CASE("traceback: what does not end a process begins no error") {
  const std::string header = "Traceback (most recent call last):";
  CHECK(begins_error(header, "epoch 3"));
  CHECK_FALSE(begins_error(header, "Exception in thread Thread-1:"));
  CHECK_FALSE(begins_error(header, "Exception ignored in: <function f>"));
  CHECK_FALSE(begins_error("ValueError: x", ""));
  CHECK_FALSE(read_error(header + "\n"));
}

}  // namespace ronde
