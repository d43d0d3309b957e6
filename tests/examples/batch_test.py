"""llminfer-batch: answers in the order of the prompts, errors, statistics.

usage: batch_test.py BATCH COMPLETE    Models are looked for in $LLMINFER_MODELS; exit code 77 where SmolLM2 is absent.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

BATCH, COMPLETE = sys.argv[1:3]
MODEL = os.path.join(os.environ.get("LLMINFER_MODELS", ""), "smollm2-135m-q4_1.gguf")
PROMPTS = ["The capital of France is", "Once upon a time", "2 + 2 =", "The sea is", "A", "She opened the door and"]


def batch(text, *options, name="-", code=0):
    """Answers as objects, and standard error."""
    run = subprocess.run([BATCH, MODEL, name, *options], input=text.encode(), capture_output=True, timeout=600)
    if run.returncode != code:
        raise AssertionError(f"exit code {run.returncode}: {run.stderr.decode()}")
    return [json.loads(line) for line in run.stdout.decode().splitlines()], run.stderr.decode()


class BatchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_answers_are_those_of_each_prompt_alone_in_their_order(self):
        text = "\n".join(PROMPTS) + "\n\n"
        answers, notes = batch(text, "-n", "8", "--max-sequences", "4", "--stats", "--progress")
        self.assertEqual([a["index"] for a in answers], list(range(6)))
        for prompt, answer in list(zip(PROMPTS, answers))[:3]:
            alone = subprocess.run([COMPLETE, MODEL, "-p", prompt, "-n", "8"], capture_output=True, timeout=600)
            self.assertEqual(answer["text"] + "\n", alone.stdout.decode())
        self.assertTrue(all(a["new_tokens"] == 8 and a["finish"] == "length" for a in answers))
        self.assertIn("prompts answered", notes)
        self.assertIn("6 prompts in", notes)

    def test_json_lines_several_answers_and_metrics(self):
        prompts = os.path.join(self.folder, "prompts.jsonl")
        with open(prompts, "w", encoding="utf-8") as file:
            for i, prompt in enumerate(PROMPTS[:3]):
                file.write(json.dumps({"prompt": prompt, "max_tokens": 4 + i, "seed": 7}) + "\n")
        metrics = os.path.join(self.folder, "metrics")
        answers, _ = batch("", "--count", "3", "--temperature", "1", "--metrics", metrics, name=prompts)
        self.assertEqual([(a["index"], a["choice"]) for a in answers], [(i, k) for i in range(3) for k in range(3)])
        self.assertTrue(all(a["new_tokens"] <= 4 + a["index"] for a in answers))
        self.assertGreater(len({a["text"] for a in answers[:3]}), 1)
        with open(metrics, encoding="utf-8") as file:
            self.assertIn("llminfer_requests_completed_total 9\n", file.read())
        again, _ = batch("", "--count", "3", "--temperature", "1", "--max-sequences", "1", name=prompts)
        self.assertEqual([a["text"] for a in again], [a["text"] for a in answers])

    def test_chat(self):
        answers, _ = batch("Say hello.\n", "-n", "4", "--chat", "--system", "Be brief.")
        self.assertGreater(answers[0]["prompt_tokens"], 15)

    def test_what_is_wrong_with_a_prompt_is_said_in_its_line(self):
        lines = ['{"prompt": "A"}', "nonsense", '{"text": "A"}', '{"prompt": "B", "max_tokens": -1}', '{"prompt": "C"}']
        answers, notes = batch("\n".join(lines), "--jsonl", "-n", "2", code=1)
        self.assertEqual([a["index"] for a in answers], [0, 1, 2, 3, 4])
        self.assertEqual([a.get("error") for a in answers],
                         [None, "line 2: not JSON", 'line 3: no "prompt" that is a string',
                          'line 4: "max_tokens" is not a whole number from 0 to 2^30', None])
        self.assertIn("3 answers to 5 prompts failed", notes)
        answers, _ = batch("A\n" + "long " * 300 + "\n", "-n", "2", "--context", "64", code=1)
        self.assertNotIn("error", answers[0])
        self.assertIn("context has room for 64", answers[1]["error"])

    def test_wrong_command_lines(self):
        for options in (["absent.txt"], [], ["-", "--count", "0"], ["-", "--nonsense"], ["-", "--system", "x"]):
            run = subprocess.run([BATCH, MODEL, *options], input=b"", capture_output=True, timeout=60)
            self.assertEqual(run.returncode, 2, options)
            self.assertRegex(run.stderr.decode(), "^llminfer-batch: .+\n$")
        run = subprocess.run([BATCH, "absent.gguf", "-"], input=b"A\n", capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 1)
        help_text = subprocess.run([BATCH, "--help"], capture_output=True, timeout=60, check=True).stdout.decode()
        self.assertIn("--max-sequences", help_text)

    def test_ctrl_c_keeps_what_is_there(self):
        with subprocess.Popen([BATCH, MODEL, "-", "-n", "4000", "--kv-bytes", "512m"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            process.stdin.write(b"Once upon a time\n")
            process.stdin.close()
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
            code = process.wait(timeout=60)
            lines = process.stdout.read().decode().splitlines()
        self.assertEqual(code, 130)
        self.assertEqual(json.loads(lines[0])["finish"], "cancelled")


if __name__ == "__main__":
    if not os.path.exists(MODEL):
        print("SmolLM2 is not in the model cache")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
