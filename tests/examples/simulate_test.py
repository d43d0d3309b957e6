"""llminfer-simulate as scripts use it, on a model without weights.

usage: simulate_test.py PROGRAM REPOSITORY [day]     day: a million requests instead, some minutes
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
DEVICE = str(ROOT / "devices/rtx4090.json")
FOLDER = tempfile.TemporaryDirectory()
MODEL = FOLDER.name + "/tiny.gguf"


def call(*arguments, timeout=300):
    run = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=timeout)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def runs(*arguments):
    code, out, err = call(MODEL, "--device", DEVICE, "--requests", "200", "--json", *arguments)
    assert code == 0, err
    return json.loads(out)["runs"]


class Simulate(unittest.TestCase):
    def test_all_policies_serve_all_requests(self):
        every = runs("--rate", "100")
        self.assertEqual([r["policy"] for r in every], ["fixed", "continuous", "chunked", "prefix"])
        for r in every:
            self.assertEqual((r["requests"], r["completed"], r["failed"]), (200, 200, 0))
            self.assertEqual(r["output_tokens"], every[0]["output_tokens"])
            self.assertLessEqual(r["first_token_s"]["p50"], r["first_token_s"]["p99"])

    def test_rates_seeds_and_choice_of_policy(self):
        two = runs("--policy", "chunked,fixed", "--rate", "50,500")
        self.assertEqual([(r["policy"], r["rate"]) for r in two],
                         [("fixed", 50), ("fixed", 500), ("chunked", 50), ("chunked", 500)])
        one = runs("--policy", "chunked")[0]
        self.assertEqual(one, runs("--policy", "chunked")[0])
        self.assertNotEqual(one, runs("--policy", "chunked", "--seed", "2")[0])

    def test_prefixes_are_reused(self):
        chunked, prefix = runs("--policy", "chunked,prefix", "--prefix-share", "0.9", "--prefix-tokens", "600")
        self.assertEqual(chunked["reused_tokens"], 0)
        self.assertGreater(prefix["reused_tokens"], 0.5 * 0.9 * 200 * 600)
        self.assertLess(prefix["computed_tokens"], chunked["computed_tokens"])

    def test_table_names_what_was_simulated(self):
        code, out, _ = call(MODEL, "--device", DEVICE, "--requests", "50")
        self.assertEqual(code, 0)
        for word in ("tiny.gguf", "RTX 4090", "fixed", "continuous", "chunked", "p99", "microseconds a token"):
            self.assertIn(word, out)

    def test_charts_are_well_formed_and_self_contained(self):
        for rates in ("100", "50,100,200"):
            path = FOLDER.name + "/charts.svg"
            runs("--rate", rates, "--svg", path)
            text = pathlib.Path(path).read_text()
            root = xml.fromstring(text)
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
            for word in ("fixed", "continuous", "chunked", "Time between tokens" + (", 99 %" if "," in rates else "")):
                self.assertIn(word, texts)
            for outside in ("href", "@import", "url(", "<script", "nan", "inf"):
                self.assertNotIn(outside, text)

    def test_errors_have_a_line_and_a_code(self):
        for code, words, arguments in [
            (2, "--device is required", [MODEL]),
            (2, "--policy", [MODEL, "--device", DEVICE, "--policy", "best"]),
            (1, "/nowhere.json", [MODEL, "--device", "/nowhere.json"]),
            (1, "tiny.gguf", ["/nowhere/tiny.gguf", "--device", DEVICE]),
            (1, "Traffic::rate is -1", [MODEL, "--device", DEVICE, "--rate", "-1"]),
            (1, "BatchPolicy::max_sequences is 0", [MODEL, "--device", DEVICE, "--max-sequences", "0"]),
            (1, "cannot be written", [MODEL, "--device", DEVICE, "--requests", "1", "--svg", "/nowhere/x.svg"]),
            (1, "device description", [MODEL, "--device", MODEL]),
        ]:
            with self.subTest(words):
                got, out, err = call(*arguments)
                self.assertEqual(got, code, err)
                self.assertIn(words, err)
                self.assertEqual(err.count("\n"), 1)
                self.assertEqual(out, "")

    def test_help_lists_options_and_exit_codes(self):
        code, out, _ = call("--help")
        self.assertEqual(code, 0)
        for word in ("--policy", "--burstiness", "--svg", "Exit codes"):
            self.assertIn(word, out)


class Day(unittest.TestCase):
    def test_a_million_requests_end_once_each(self):
        code, out, err = call(MODEL, "--device", str(ROOT / "devices/h200.json"), "--requests", "1000000", "--rate", "11.6",
                              "--burstiness", "2", "--daily-swing", "0.6", "--context", "16384", "--max-sequences", "128",
                              "--step-tokens", "1024", "--policy", "chunked", "--json", timeout=3000)
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        day = report["runs"][0]
        self.assertEqual((day["completed"], day["failed"], day["preemptions"]), (1000000, 0, 0))
        self.assertAlmostEqual(day["seconds"] / 86400, 1, delta=0.02)
        self.assertEqual(day["computed_tokens"], day["prompt_tokens"] + day["output_tokens"] - day["completed"])
        self.assertLess(report["wall_s"], 1200)
        print(f"{day['output_tokens']} tokens in {report['wall_s']:.0f} s")


if __name__ == "__main__":
    day = sys.argv[3:] == ["day"]
    subprocess.run([sys.executable, ROOT / "scripts/shape_model.py", "llama-3.1-8b" if day else "tiny", MODEL], check=True)
    unittest.main(argv=[sys.argv[0], "Day" if day else "Simulate"])
