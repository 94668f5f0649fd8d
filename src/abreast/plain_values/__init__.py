"""Values of users' attributes as JSON and arrays, for files: restored exactly, or refused by name; nothing is pickled.

    state = encode_all({"log": [1, 2], "rng": generator}, places, modules)
    values = decode_all(state, vars(owner), places, modules)

All that can be reached is one flat list of objects that refer to each other by number, so that an object that is referred to
twice is one object again, cycles included, and nothing here recurses:

    {"format": 3, "values": {"log": [0], "rng": [1]}, "objects": [{"kind": "list", "items": [1, 2]}, …]}

`[0]` is a reference, any other value is itself. Decoding changes the values that are there (`current`) where it can, because
things that are not written (functions, parts of ours) may refer to them. It imports nothing, and makes no objects but of the
classes in `modules`, without calling them.
"""

from abreast.plain_values.decoding import Decoder, NotHere, decode_all
from abreast.plain_values.encoding import Unwritable, encode_all
from abreast.plain_values.names import Places, user_modules

__all__ = ["Decoder", "NotHere", "Places", "Unwritable", "decode_all", "encode_all", "user_modules"]
