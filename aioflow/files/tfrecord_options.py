"""The compression of TFRecord files."""

import zlib
from typing import Any, Final

from aioflow.tensors.recursion import safe_repr


class TFRecordCompressionType:
    """The compression of a file of records.

    Examples:
        >>> options = af.io.TFRecordOptions(af.io.TFRecordCompressionType.ZLIB)
        >>> with af.io.TFRecordWriter("data.tfrecord.z", options) as writer:
        ...     writer.write(b"one")
        >>> list(af.io.tf_record_iterator("data.tfrecord.z", options))
        [b'one']
    """

    NONE: Final = 0
    ZLIB: Final = 1
    GZIP: Final = 2


_NAMES: Final = {None: "", "": "", "NONE": "", "ZLIB": "ZLIB", "GZIP": "GZIP", 0: "", 1: "ZLIB", 2: "GZIP"}
WINDOW: Final = {"ZLIB": 15, "GZIP": 31}


class TFRecordOptions:
    """Options for reading and writing a file of records.

    Args:
        compression_type: None, "ZLIB" or "GZIP", or one of `TFRecordCompressionType`.
        flush_mode: for compatibility.
        input_buffer_size: for compatibility.
        output_buffer_size: for compatibility.
        window_bits: the window size of a writer's compression, 9 to 15.
        compression_level: a writer's compression level, 0 to 9.
        compression_method: for compatibility; the only method is deflate.
        mem_level: the memory of a writer's compression, 1 to 9.
        compression_strategy: zlib's strategy of a writer's compression.
        skip_corrupt: whether a reader skips missing files, corrupt or too long records, and the rest of a file that
            cannot be decompressed, instead of raising an error. It logs one warning for each file.
        max_record_bytes: a reader refuses longer records.
        max_expansion: a reader refuses a file that decompression makes longer by more than this factor; the first 64
            MiB
            do not count.

    Examples:
        >>> options = af.io.TFRecordOptions(af.io.TFRecordCompressionType.GZIP)
        >>> with af.io.TFRecordWriter("data.tfrecord.gz", options) as writer:
        ...     writer.write(b"one")
        >>> list(af.io.tf_record_iterator("data.tfrecord.gz", options))
        [b'one']
    """

    compression_type_map: Final = {0: "", 1: "ZLIB", 2: "GZIP"}

    def __init__(
        self,
        compression_type: str | int | None = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
        *,
        skip_corrupt: bool = False,
        max_record_bytes: int = 1 << 30,
        max_expansion: float = 250.0,
    ) -> None:
        self.compression_type: Final = TFRecordOptions.get_compression_type_string(compression_type)
        self.skip_corrupt: Final = skip_corrupt
        self.max_record_bytes: Final = max_record_bytes
        self.max_expansion: Final = max_expansion
        self._deflate: Final = (
            _check_range("compression_level", -1 if compression_level is None else compression_level, -1, 9),
            _check_range("window_bits", 15 if window_bits is None else window_bits, 9, 15),
            _check_range("mem_level", 8 if mem_level is None else mem_level, 1, 9),
            _check_range("compression_strategy", compression_strategy or 0, 0, 4),
        )

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Return `""`, `"ZLIB"` or `"GZIP"` for options or a compression_type. ValueError for others."""
        if isinstance(options, TFRecordOptions):
            return options.compression_type
        if options not in _NAMES:
            raise ValueError(f"the compression of records is 'ZLIB', 'GZIP' or '', not {safe_repr(options)}")
        return _NAMES[options]

    @classmethod
    def of(cls, options: "TFRecordOptions | str | int | None") -> "TFRecordOptions":
        """Return TFRecordOptions for options, a compression type or None."""
        return options if isinstance(options, TFRecordOptions) else cls(options)

    def compressor(self) -> Any:
        """Return a writer's compressor; None for no compression."""
        if not self.compression_type:
            return None
        level, bits, memory, strategy = self._deflate
        return zlib.compressobj(level, zlib.DEFLATED, bits + (self.compression_type == "GZIP") * 16, memory, strategy)


def _check_range(what: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"{what} is {low} to {high}, not {value}")
    return value
