#!/usr/bin/env python3
"""The programs that talk in the captures, and the merging of two captures into one pcapng. Used by make.sh alone."""

import select
import socket
import struct
import sys
import time


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def tcp_serve(address, port, size):
    """Takes one connection, reads a request up to an empty line, answers with SIZE bytes of body, closes."""
    listener = socket.socket(family(address), socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(1)
    print("ready", flush=True)
    connection, _ = listener.accept()
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(4096)
    body = bytes(ord("a") + n % 26 for n in range(int(size)))
    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    connection.close()


def tcp_get(address, port, source_port):
    """Asks, reads to the end, closes."""
    connection = socket.socket(family(address), socket.SOCK_STREAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.bind(("", int(source_port)))
    connection.connect((address, int(port)))
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    while connection.recv(65536):
        pass
    connection.close()


def tcp_sink(address, port):
    """Takes one connection and reads to its end."""
    listener = socket.socket(family(address), socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(1)
    print("ready", flush=True)
    connection, _ = listener.accept()
    while connection.recv(65536):
        pass
    connection.close()


def tcp_send(address, port, source_port, size):
    """Sends SIZE bytes and waits until the other side has closed as well."""
    connection = socket.socket(family(address), socket.SOCK_STREAM)
    connection.bind(("", int(source_port)))
    connection.connect((address, int(port)))
    connection.sendall(bytes(ord("a") + n % 26 for n in range(int(size))))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    connection.close()


def tcp_refused(address, port, source_port):
    """Connects to a port where nobody listens."""
    connection = socket.socket(family(address), socket.SOCK_STREAM)
    connection.bind(("", int(source_port)))
    try:
        connection.connect((address, int(port)))
    except ConnectionRefusedError:
        return
    sys.exit("the connection was not refused")


def tcp_scan(address, first, last, source_port):
    """Connects to the ports FIRST to LAST, where nobody listens, from source ports that count up as well."""
    for offset, port in enumerate(range(int(first), int(last) + 1)):
        tcp_refused(address, port, int(source_port) + offset)


def udp_echo(address, port, count):
    """Sends COUNT datagrams back."""
    server = socket.socket(family(address), socket.SOCK_DGRAM)
    server.bind((address, int(port)))
    print("ready", flush=True)
    for _ in range(int(count)):
        data, peer = server.recvfrom(65536)
        server.sendto(data, peer)


def udp_send(address, port, source_port, *sizes):
    """Sends datagrams of these sizes, waiting for the echo of each."""
    client = socket.socket(family(address), socket.SOCK_DGRAM)
    client.bind(("", int(source_port)))
    client.settimeout(5)
    for size in sizes:
        client.sendto(bytes(ord("a") + n % 26 for n in range(int(size))), (address, int(port)))
        client.recvfrom(65536)
        time.sleep(0.01)


def join(group, interface):
    """Joins an IPv4 or IPv6 group, stays a while, leaves."""
    member = socket.socket(family(group), socket.SOCK_DGRAM)
    index = socket.if_nametoindex(interface)
    if ":" in group:
        request = socket.inet_pton(socket.AF_INET6, group) + struct.pack("=I", index)
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    else:
        request = socket.inet_aton(group) + struct.pack("=4si", b"\0" * 4, index)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    time.sleep(2.5)
    member.close()
    time.sleep(2.5)


def relay(trunk, *ports):
    """A switch with one host on each of the PORTS and a TRUNK on which the hosts are told apart by their VLAN tags.

    A port is NAME=TPID:VID[,TPID:VID], outer tag first, or NAME= for untagged. This stands in for the kernel's own
    VLAN devices, which not every kernel has; the frames on the trunk are the same.
    """
    def tap(name):
        tapped = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        tapped.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA
        tapped.bind((name, 0))
        return tapped

    def receive(tapped):
        """A frame with the tag that the kernel has taken out put back, or None for one that this side sent."""
        frame, extra, _, (_, _, kind, _, _) = tapped.recvmsg(65536, 64)
        if kind == 4:  # PACKET_OUTGOING
            return None
        for _, _, data in extra:
            status, _, _, _, _, tci, tpid = struct.unpack_from("=IIIHHHH", data)
            if status & 0x10:  # TP_STATUS_VLAN_VALID
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
        return frame

    tags_of = {}
    for port in ports:
        name, tags = port.split("=")
        pairs = [tag.split(":") for tag in tags.split(",") if tag]
        tags_of[tap(name)] = b"".join(struct.pack("!HH", int(tpid, 16), int(vid)) for tpid, vid in pairs)
    trunk = tap(trunk)
    print("ready", flush=True)
    while True:
        for tapped in select.select([trunk, *tags_of], [], [])[0]:
            frame = receive(tapped)
            if frame is None:
                continue
            if tapped is not trunk:
                trunk.send(frame[:12] + tags_of[tapped] + frame[12:])
                continue
            # The longest match: what is untagged to one port may be tagged to another.
            for port, tags in sorted(tags_of.items(), key=lambda item: -len(item[1])):
                if frame[12:].startswith(tags):
                    port.send(frame[:12] + frame[12 + len(tags) :])
                    break


def merge(output, *named):
    """Merges little-endian nanosecond Ethernet captures, given as NAME=FILE, by time into one pcapng."""
    def block(kind, body):
        body += b"\0" * (-len(body) % 4)
        total = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + total + body + total

    def option(code, value):
        return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)

    with open(output, "wb") as out:
        out.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        records = []
        for index, pair in enumerate(named):
            name, path = pair.split("=", 1)
            options = option(2, name.encode()) + option(9, b"\x09") + option(0, b"")
            out.write(block(1, struct.pack("<HHI", 1, 0, 262144) + options))
            with open(path, "rb") as file:
                data = file.read()
            assert struct.unpack_from("<I", data)[0] == 0xA1B23C4D and struct.unpack_from("<I", data, 20)[0] == 1
            at = 24
            while at < len(data):
                seconds, nanoseconds, captured, original = struct.unpack_from("<IIII", data, at)
                packet = data[at + 16 : at + 16 + captured]
                records.append((seconds * 10**9 + nanoseconds, index, original, packet))
                at += 16 + captured
        for ticks, index, original, packet in sorted(records, key=lambda record: record[:2]):
            fixed = struct.pack("<IIIII", index, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), original)
            out.write(block(6, fixed + packet))


COMMANDS = [tcp_serve, tcp_get, tcp_sink, tcp_send, tcp_refused, tcp_scan, udp_echo, udp_send, join,
            relay, merge]

if __name__ == "__main__":
    {command.__name__.replace("_", "-"): command for command in COMMANDS}[sys.argv[1]](*sys.argv[2:])
