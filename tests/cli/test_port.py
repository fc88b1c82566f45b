"""`aioflow port`: its report, and the file that it writes."""

from aioflow import cli

PROGRAM = """import tensorflow as tf

with tf.Session(config=tf.ConfigProto()) as sess:
    print(sess.run(tf.layers.flatten(images)))
"""
REPORT = """{name}: 3 names of TensorFlow's: 1 same, 1 differs, 1 missing

  missing  tf.layers.flatten  line 4: {hint}
  differs  tf.ConfigProto     line 3: becomes af.Config
  same     tf.Session         line 3

changed: imports 1, async blocks 1, awaits 1, coroutine functions 1
left to you: 1
  line 4: tf.layers.flatten is missing: {hint}
"""
HINT = "use af.layers.Flatten()(x)"
CHANGED = """import asyncio
import aioflow as af

async def main():
    async with af.Session(config=af.Config()) as sess:
        # aioflow: tf.layers.flatten is missing: {hint}
        print(await sess.run(af.layers.flatten(images)))


asyncio.run(main())
"""


def test_a_report_is_printed_and_a_file_written_where_one_is_asked_for(tmp_path, capsys):
    script, output = tmp_path / "script.py", tmp_path / "changed.py"
    script.write_text(PROGRAM)
    assert cli.main(["port", str(script)]) == 0
    assert capsys.readouterr().out == REPORT.format(name=script, hint=HINT)
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
    assert cli.main(["port", str(script), "-o", str(output)]) == 0
    assert capsys.readouterr().out.endswith(f"\nwritten to {output}\n")
    assert output.read_text() == CHANGED.format(hint=HINT)
    assert cli.main(["port", str(output), "-o", "-"]) == 0
    assert capsys.readouterr().out == output.read_text()
    assert cli.main(["port", str(output)]) == 0
    assert "no TensorFlow program" in capsys.readouterr().out


def test_what_is_no_program_ends_with_1_and_the_reason(tmp_path, capsys):
    script = tmp_path / "old.py"
    script.write_text("print 1\n")
    assert cli.main(["port", str(script), "-o", str(tmp_path / "new.py")]) == 1
    assert f"aioflow: {script}:1: Python cannot parse the program" in capsys.readouterr().err
    script.write_bytes(b"x = '\xff'\n")
    assert cli.main(["port", str(script)]) == 1
    assert cli.main(["port", str(tmp_path / "none.py")]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["old.py"]
