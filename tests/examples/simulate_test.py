"""llminfer-simulate as scripts use it, on a model without weights.

usage: simulate_test.py PROGRAM REPOSITORY
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


def call(*arguments):
    run = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=300)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def runs(*arguments):
    code, out, err = call(MODEL, "--device", DEVICE, "--requests", "200", "--json", *arguments)
    assert code == 0, err
    return json.loads(out)["runs"]


class Simulate(unittest.TestCase):
    def test_all_policies_serve_all_requests(self):
        every = runs("--rate", "100")
        self.assertEqual([r["policy"] for r in every], ["fixed", "continuous", "chunked"])
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


if __name__ == "__main__":
    subprocess.run([sys.executable, ROOT / "scripts/shape_model.py", "tiny", MODEL], check=True)
    unittest.main(argv=sys.argv[:1])
