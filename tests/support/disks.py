"""A disk that keeps only what was synced, and may lose its power before any operation: in the place of `os`.

After a cut, files have what they had when they were last synced, or some of what was written since, or nothing where
that was; of the changes of folders since these were synced, any subset is there. Or, if only the process died, all is.
"""

import errno
import os
import posixpath
import stat
from types import SimpleNamespace


class PowerCut(BaseException):
    """The machine stands still: so it ends whatever it would do next."""


class File:
    def __init__(self):
        self.data, self.synced = b"", b""


class Folder:
    def __init__(self, entries=()):
        self.entries, self.synced = dict(entries), dict(entries)


class Disk:
    """As the module `os`, as far as `aioflow.checkpoint` uses it to write and read.

    Attributes:
        done: how many operations that change something were done.
        cut_at: before which of them the power goes.
        fail_at: which of them fails, and all that follow if `for_ever`, with `fault`.
    """

    O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_CLOEXEC, O_NONBLOCK, O_DIRECT = (
        os.O_RDONLY, os.O_WRONLY, os.O_CREAT, os.O_EXCL, os.O_NOFOLLOW, os.O_CLOEXEC, os.O_NONBLOCK, 1 << 30,
    )  # fmt: skip

    def __init__(self, root=None):
        self.root = root or Folder()
        self.path = SimpleNamespace(
            join=posixpath.join, dirname=posixpath.dirname, isdir=self._isdir, realpath=posixpath.normpath,
            split=posixpath.split,
        )  # fmt: skip
        self.done, self.cut_at, self.fail_at, self.fault, self.for_ever = 0, None, None, errno.ENOSPC, False
        self._open, self._next, self._dead = {}, 3, False
        self._pending = []  # changes of folders that are not synced, each with the folders and the change

    # What happens to it

    def _changes(self):
        if self._dead or self.done == self.cut_at:
            self._dead = True
            raise PowerCut
        self.done += 1
        if self.fail_at is not None and (self.done == self.fail_at or (self.for_ever and self.done > self.fail_at)):
            raise OSError(self.fault, os.strerror(self.fault))

    def after_a_cut(self, random):
        """What the disk holds when the power is back."""
        return Disk(_survived(self.root, [change for change in self._pending if random.random() < 0.5], random))

    def after_the_process_died(self):
        """What the disk holds for the next process."""
        return Disk(self.root)

    # The module

    def cpu_count(self):
        return 1

    def open(self, path, flags, mode=0o777):
        folder, name = self._at(path)
        found = folder.entries.get(name) if name else folder
        if flags & os.O_CREAT:
            self._changes()
            if found is not None:
                raise FileExistsError(errno.EEXIST, "there", path)
            found = File()
            self._change((folder,), [(folder, name, found)])
        elif found is None:
            raise FileNotFoundError(errno.ENOENT, "not there", path)
        self._next += 1
        self._open[self._next] = found
        return self._next

    def close(self, file):
        del self._open[file]

    def pwritev(self, file, views, offset):
        return self.pwrite(file, b"".join(views), offset)

    def pwrite(self, file, data, offset):
        self._changes()
        part = bytes(data[: 1 + len(data) // 2])  # never all at once
        item = self._open[file]
        item.data = item.data[:offset].ljust(offset, b"\0") + part + item.data[offset + len(part) :]
        return len(part)

    def fsync(self, file):
        self._changes()
        item = self._open[file]
        if isinstance(item, File):
            item.synced = item.data
            return
        for change in [change for change in self._pending if item in change[0]]:
            self._pending.remove(change)
            for folder, name, what in change[1]:
                _put(folder.synced, name, what)

    def rename(self, old, new):
        self._changes()
        (source, name), (target, other) = self._at(old), self._at(new)
        if name not in source.entries:
            raise FileNotFoundError(errno.ENOENT, "not there", old)
        moved, there = source.entries[name], target.entries.get(other)
        if isinstance(moved, Folder) and there is not None:
            raise OSError(errno.ENOTEMPTY if isinstance(there, Folder) else errno.ENOTDIR, "there", new)
        self._change((source, target), [(source, name, None), (target, other, moved)])

    def mkdir(self, path):
        self._changes()
        folder, name = self._at(path)
        if name in folder.entries:
            raise FileExistsError(errno.EEXIST, "there", path)
        self._change((folder,), [(folder, name, Folder())])

    def unlink(self, path):
        self._changes()
        self._remove(path)

    def rmdir(self, path):
        self._changes()
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self._remove(path)

    def _remove(self, path):
        folder, name = self._at(path)
        if name not in folder.entries:
            raise FileNotFoundError(errno.ENOENT, "not there", path)
        self._change((folder,), [(folder, name, None)])

    def listdir(self, path):
        found = self._find(path)
        if not isinstance(found, Folder):
            raise NotADirectoryError(errno.ENOTDIR, "no folder", path)
        return list(found.entries)

    def lstat(self, path):
        return _status(self._find(path))

    def fstat(self, file):
        return _status(self._open[file])

    def preadv(self, file, buffers, offset):
        (buffer,) = buffers
        data = self._open[file].data[offset : offset + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def _isdir(self, path):
        try:
            return isinstance(self._find(path), Folder)
        except OSError:
            return False

    def _change(self, folders, puts):
        for folder, name, what in puts:
            _put(folder.entries, name, what)
        self._pending.append((folders, puts))

    def _at(self, path):
        parent, name = posixpath.split(path)
        found = self._find(parent)
        if not isinstance(found, Folder):
            raise NotADirectoryError(errno.ENOTDIR, "no folder", path)
        return found, name

    def _find(self, path):
        found = self.root
        for name in filter(None, path.split("/")):
            if not isinstance(found, Folder):
                raise NotADirectoryError(errno.ENOTDIR, "no folder", path)
            if name not in found.entries:
                raise FileNotFoundError(errno.ENOENT, "not there", path)
            found = found.entries[name]
        return found


def _put(entries, name, what):
    if what is None:
        entries.pop(name, None)
    else:
        entries[name] = what


def _status(item):
    if isinstance(item, Folder):
        return SimpleNamespace(st_mode=stat.S_IFDIR, st_size=0, st_ctime=0.0)
    return SimpleNamespace(st_mode=stat.S_IFREG, st_size=len(item.data), st_ctime=0.0)


def _survived(item, changes, random):
    if isinstance(item, File):
        kept = File()
        kept.data = kept.synced = random.choice([item.synced, item.data, _torn(item, random)])
        return kept
    entries = dict(item.synced)
    for _, puts in changes:
        for folder, name, what in puts:
            if folder is item:
                _put(entries, name, what)
    return Folder({name: _survived(what, changes, random) for name, what in entries.items()})


def _torn(file, random):
    """What was synced, then some of what was written since, with zeros where something else was."""
    at = random.randint(len(file.synced), len(file.data)) if len(file.data) > len(file.synced) else len(file.data)
    return file.data[:at] + bytes(random.randint(0, len(file.data) - at))
