"""Attacks on the network: sockets of every family, by every way."""

from __future__ import annotations

from .base import in_group

_attack = in_group("network")

ATTACKS = [
    _attack(
        "tcp-connect",
        """
        import socket
        with socket.socket() as s:
            s.connect(("127.0.0.1", env["tcp_port"]))
            return str(s.getpeername())
        """,
        needs=("inet",),
    ),
    _attack(
        "tcp-connect-raw",
        """
        import struct
        fd, _ = syscall("socket", 2, 1, 0)
        where = struct.pack("<HH4s8x", 2, 0, bytes([127, 0, 0, 1]))
        where = where[:2] + struct.pack(">H", env["tcp_port"]) + where[4:]
        return done("connect", fd, where, len(where))
        """,
        needs=("inet", "x86_64"),
    ),
    _attack(
        "tcp-connect-libc",
        """
        import struct
        libc = find_ctypes().CDLL(None)
        fd = libc.socket(2, 1, 0)
        where = b"\\2\\0" + struct.pack(">H", env["tcp_port"]) + bytes([127, 0, 0, 1]) + bytes(8)
        return "connected" if fd >= 0 and libc.connect(fd, where, 16) == 0 else None
        """,
        needs=("inet",),
    ),
    _attack("tcp-socket", "import socket\nreturn repr(socket.socket())", needs=("inet",)),
    _attack(
        "tcp-bind-listen",
        """
        import socket
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen(1)
            return str(s.getsockname())
        """,
        needs=("inet",),
    ),
    _attack(
        "udp-send",
        """
        import socket
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            return f"{s.sendto(b'x', ('127.0.0.1', env['tcp_port']))} byte"
        """,
        needs=("inet",),
    ),
    _attack(
        "udp-connect",
        """
        import socket
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1", 53))
            return str(s.getsockname())
        """,
        needs=("inet",),
    ),
    _attack(
        "raw-icmp",
        "import socket\nreturn repr(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))",
        needs=("inet", "root"),
    ),
    _attack(
        "packet-socket",
        "import socket\nreturn repr(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))",
        needs=("root",),
    ),
    _attack(
        "unix-connect",
        """
        import socket
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(env["unix_path"])
            return str(s.getpeername())
        """,
        needs=("unix",),
    ),
    _attack(
        "abstract-connect",
        """
        import socket
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\\0" + env["abstract"])
            return str(s.getpeername())
        """,
        needs=("unix", "abstract"),
    ),
    _attack(
        "unix-bind",
        """
        import socket
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(env["marker"])
            return s.getsockname()
        """,
        witness='os.path.exists(env["marker"])',
        needs=("unix",),
    ),
    _attack(
        "abstract-bind",
        """
        import socket
        with socket.socket(socket.AF_UNIX) as s:
            s.bind("\\0attack-" + env["token"])
            s.listen(1)
            return "listening"
        """,
        needs=("unix", "abstract"),
    ),
    _attack(
        "socketpair",
        """
        import socket
        a, b = socket.socketpair()
        a.send(b"x")
        return repr(b.recv(1))
        """,
        needs=("unix",),
    ),
    _attack(
        "scm-rights",
        """
        import os, socket
        a, b = socket.socketpair()
        socket.send_fds(a, [b"x"], [0])
        _, fds, _, _ = socket.recv_fds(b, 1, 1)
        os.close(fds[0])
        return f"descriptor {fds[0]} passed"
        """,
        needs=("unix",),
    ),
    _attack(
        "getaddrinfo",
        'import socket\nreturn str(socket.getaddrinfo(b"localhost", 80)[0][4])',
    ),
    _attack(
        "netlink",
        """
        import socket
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
            s.bind((0, 0))
            return str(s.getsockname())
        """,
    ),
    _attack("interfaces", "import socket\nreturn str(socket.if_nameindex())", needs=("inet",)),
    _attack("vsock", "import socket\nreturn repr(socket.socket(40, 1))", needs=("vsock",)),
    _attack(
        "urllib",
        """
        import urllib.error, urllib.request
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{env['tcp_port']}/", timeout=0.5)
        except (TimeoutError, ConnectionResetError):
            return "connected, no answer"
        except urllib.error.HTTPError as error:
            return f"status {error.code}"
        except urllib.error.URLError as error:
            if isinstance(error.reason, (TimeoutError, ConnectionResetError)):
                return "connected, no answer"
            raise
        except Exception as error:
            if "http.client" in type(error).__module__:
                return f"answered with {type(error).__name__}"
            raise
        return "answered"
        """,
        needs=("inet", "imports"),
    ),
    _attack(
        "asyncio-connect",
        """
        import asyncio, threading

        async def connect():
            reader, writer = await asyncio.open_connection("127.0.0.1", env["tcp_port"])
            peer = writer.get_extra_info("peername")
            writer.close()
            return str(peer)

        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(asyncio.wait_for(connect(), 1))
        finally:
            loop.close()
            asyncio._set_running_loop(running)
        """,
        needs=("inet",),
    ),
    _attack(
        "loop-sock-connect",
        """
        import asyncio
        loop = asyncio.get_running_loop()
        connecting = loop.create_connection(asyncio.Protocol, "127.0.0.1", env["tcp_port"])
        try:
            connecting.send(None)  # runs to its first wait, by when the socket is there
        except StopIteration:
            pass
        finally:
            connecting.close()
        return "the host's loop began to connect"
        """,
        needs=("inet", "loop"),
    ),
    _attack(
        "getpeername-inherited",
        """
        result, errno = syscall(52, 0, buffer(128), buffer((128).to_bytes(4, "little")))
        # Success, ENOTSOCK or ENOTCONN: the kernel looked.
        return f"errno {errno}" if result == 0 or errno in (88, 107) else None
        """,
        needs=("x86_64",),
    ),
    _attack(
        "gethostbyname",
        'import socket\nreturn socket.gethostbyname(b"localhost")',
    ),
]
