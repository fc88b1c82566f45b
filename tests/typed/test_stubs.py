from tests.typed.stubs import PACKAGE, stubs


def test_stub_files_are_those_of_the_faces_as_they_are():
    made = stubs()
    assert {path for path, text in made.items() if not path.exists() or path.read_text() != text} == set()
    assert {*PACKAGE.rglob("*.pyi")} == {*made}
