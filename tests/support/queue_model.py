"""What queues do, said plainly: lists, and no waiting. The live ones are compared with this under cancellation."""

import random


class Attempt:
    """A waiting call on a queue. `outcome` is None while it waits.

    A put that has waited is granted its room first, and puts its last element in `finish`.
    """

    def __init__(self, kind, items=(), count=0):
        self.kind = kind
        self.left = list(items)
        self.count = count
        self.outcome = None
        self.waits = False


class Model:
    """A queue: `kind` is fifo, shuffled or priority.

    Elements are (serial, value) pairs, so that an element that was given back is known by its age.
    """

    def __init__(self, kind, capacity, min_after=0, seed=1):
        self.kind, self.capacity, self.min_after = kind, capacity, min_after
        self.items = []
        self.puts, self.takes, self.granted = [], [], []
        self.closed = False
        self.serial = 0
        self.random = random.Random(seed)

    @property
    def size(self):
        return len(self.items)

    # What somebody wants

    def join(self, attempt):
        (self.takes if attempt.kind in ("take", "up_to") else self.puts).append(attempt)
        self.serve()
        attempt.waits = attempt.outcome is None
        return attempt

    def finish(self, attempt):
        """Let a granted put put its last element."""
        self.granted.remove(attempt)
        if self.closed:
            attempt.outcome = "closed"
        else:
            self.add_all(attempt)
        self.serve()

    def add_all(self, attempt):
        while attempt.left:
            self.add(attempt.left.pop(0))
        attempt.outcome = "done"

    def leave(self, attempt):
        """Whoever wanted it was cancelled, perhaps before hearing that it was done."""
        for line in (self.puts, self.takes, self.granted):
            if attempt in line:
                line.remove(attempt)
        if attempt.kind in ("take", "up_to") and isinstance(attempt.outcome, list):
            self.items += attempt.outcome
            if self.kind == "fifo":
                self.items.sort()
        self.serve()

    def close_now(self):
        self.closed = True
        self.serve()

    # How it is served

    def serve(self):
        while any([self.advance(self.puts, self.put_first), self.advance(self.takes, self.take_first)]):
            pass

    def advance(self, line, first):
        moved = False
        while line and first(line[0]):
            line.pop(0)
            moved = True
        return moved

    def put_first(self, attempt):
        if self.closed:
            attempt.outcome = "closed"
        elif attempt.kind == "close":
            if not self.granted:
                self.closed = True
                attempt.outcome = "done"
        elif not self.granted or (attempt.waits and (attempt.kind == "atomic" or len(attempt.left) == 1)):
            self.put_what_fits(attempt)
        return attempt.outcome is not None or attempt in self.granted

    def put_what_fits(self, attempt):
        while attempt.kind != "atomic" and len(attempt.left) > 1 and self.room(1):
            self.add(attempt.left.pop(0))
        if (attempt.kind == "atomic" or len(attempt.left) == 1) and self.room(len(attempt.left)):
            if attempt.waits:
                self.granted.append(attempt)
            else:
                self.add_all(attempt)

    def room(self, count):
        needed = self.takes[0].count + self.min_after if self.takes else 0
        size = self.size + sum(len(attempt.left) for attempt in self.granted)
        return size + count <= self.capacity or size < needed

    def add(self, value):
        self.serial += 1
        self.items.append((self.serial, value))

    def take_first(self, attempt):
        available = self.size if self.closed else self.size - self.min_after
        if available >= attempt.count:
            attempt.outcome = [self.next() for _ in range(attempt.count)]
        elif self.closed and attempt.kind == "up_to" and available:
            attempt.outcome = [self.next() for _ in range(available)]
        elif self.closed:
            attempt.outcome = "out of range"
        return attempt.outcome is not None

    def next(self):
        if self.kind == "fifo":
            return self.items.pop(0)
        if self.kind == "priority":
            least = min(self.items, key=lambda item: (item[1] % 3, item[0]))
            self.items.remove(least)
            return least
        chosen = int(self.random.random() * len(self.items))
        self.items[chosen], self.items[-1] = self.items[-1], self.items[chosen]
        return self.items.pop()
