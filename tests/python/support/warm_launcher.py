"""What a server that was forked starts in the place of Python; `tests.python.support.warm` writes the first line.

It has a zygote forked, and is the zygote to the server: it ends as that does, and that is killed when it is. Anything
else it starts with Python. Only what Python has imported by itself is used, for each server pays for it.
"""

import _socket
import os
import sys

if sys.argv[1:3] != ["-m", "hitl.worker.zygote"]:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
with open("/proc/self/comm", "w") as name:  # noqa: PTH123 - pathlib is not imported
    name.write("hitl-zygote")
request = {
    "is": "zygote",
    "arguments": sys.argv[3:],
    "environment": dict(os.environ),
    "directory": os.getcwd(),  # noqa: PTH109
    "server": os.getppid(),
    "group": os.getpgid(0),
}
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
connection.connect("ADDRESS")
numbers = [0, 1, 2]
if "HITL_LEASE_PAGE" in os.environ:  # of a server that is one of several
    numbers.append(int(os.environ["HITL_LEASE_PAGE"]))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
connection.sendmsg([repr(request).encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
for number in (0, 1, 2):  # the end of these is the end of the zygote
    os.close(number)
connection.recv(1024)
code = int(connection.recv(1024) or b"1")
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
