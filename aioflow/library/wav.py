"""`decode_wav`, whose results have names."""

from typing import NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import TextLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.data.wav import decoded_wav


class DecodeWav(NamedTuple):
    """A sound.

    Attributes:
        audio: samples from -1 to 1, [samples, channels].
        sample_rate: samples per second.
    """

    audio: Tensor
    sample_rate: Tensor


@transactional
def decode_wav(
    contents: TextLike, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> DecodeWav:
    """The samples of a WAV file of 16 bits, [samples, channels] from -1 to 1, and their number per second.

    Args:
        contents: the file, a string.
        desired_channels: the number of channels; those that the file lacks repeat its last; -1 for those of the file.
        desired_samples: the number of samples; those that the file lacks are 0; -1 for those of the file.
        name: the name of the operation.

    Raises:
        InvalidArgumentError: in the run: the string is no WAV file, is damaged, or has samples that are not of 16 bits.

    Examples:
        >>> wav = af.audio.encode_wav([[0.25]], 8000)
        >>> await session.run(af.audio.decode_wav(wav, desired_samples=2))
        DecodeWav(audio=array([[0.25],
               [0.  ]], dtype=float32), sample_rate=np.int32(8000))
    """
    return DecodeWav(*decoded_wav(contents, desired_channels, desired_samples, name=name))
