#!/usr/bin/env python3
"""kvferry inspect and fsck on small stores that are damaged from outside.

usage: store_test.py BINARY MAKER DOCS
BINARY is the command, MAKER the program that makes a sample store, DOCS the folder with store.md.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = MAKER = DOCS = None
MIB = 1 << 20


def kvferry(*arguments):
    done = subprocess.run([BINARY, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class StoreTest(unittest.TestCase):
    """A store of two drives with 36 blocks in three segments, made anew for each test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kvferry-store-")
        self.drives = [os.path.join(self.folder, name) for name in ("a", "b")]
        made = subprocess.run([MAKER, *self.drives], stdout=subprocess.PIPE, check=True)
        self.blocks = [line.split() for line in made.stdout.decode().splitlines()]

    def tearDown(self):
        shutil.rmtree(self.folder)

    def file(self, drive):
        return os.path.join(self.drives[drive], "blocks.kvferry")

    def overwrite(self, path, offset, content):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(content)

    def damage(self, block):
        """Flips a bit of a block's bytes; the block's segment and page."""
        path, offset, _, segment, page = self.blocks[block]
        with open(path, "r+b") as file:
            file.seek(int(offset))
            byte = file.read(1)
            file.seek(int(offset))
            file.write(bytes([byte[0] ^ 1]))
        return int(segment), int(page)

    def digests(self):
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.join(folder, name)] = hashlib.sha256(file.read()).hexdigest()
        return found

    def held(self):
        """A process that has the store open, as an engine has it."""
        holder = subprocess.Popen([MAKER, "--hold", *self.drives], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        return holder

    def release(self, holder):
        holder.stdin.close()
        self.assertEqual(holder.wait(), 0)
        holder.stdout.close()

    def report(self, command, *arguments, code=0):
        returned, out, err = kvferry(command, "--json", *arguments, *self.drives)
        self.assertEqual((returned, err), (code, ""), out)
        return json.loads(out)


class InspectTest(StoreTest):
    def test_shows_what_is_there(self):
        report = self.report("inspect")
        self.assertEqual(report["problems"], [])
        self.assertEqual([drive["drive_index"] for drive in report["drives"]], [0, 1])
        self.assertEqual(report["drives"][1]["copies_good"], [True] * 4)
        segments = {"total": 8, "clean": 1, "open": 1, "sealed": 2, "quarantined": 0}
        self.assertEqual(report["segments"], segments)
        self.assertEqual(report["streams"], {"normal": 2, "protected": 1})
        self.assertEqual(report["blocks"]["count"], 36)
        stored = sum(int(block[2]) for block in self.blocks)
        self.assertEqual(report["blocks"]["stored_bytes"], stored)
        namespaces = report["namespaces"]
        self.assertEqual(sum(space["count"] for space in namespaces.values()), 36)
        self.assertNotIn("tenant", namespaces["1"])  # The made-up manifest does not tell.
        self.assertEqual(report["stats"]["stats/drives"], [{"p99_us": 210}])
        self.assertEqual(report["stats"]["stats/note"], "no JSON")
        self.assertNotIn("namespaces", report["stats"])

    def test_prints_lines(self):
        code, out, err = kvferry("inspect", *self.drives)
        self.assertEqual((code, err), (0, ""))
        for words in ("drive 0", "its 4 copies good", "sealed 2", "36 blocks", "namespace 1",
                      "the manifest does not tell whose", "stats/drives"):
            self.assertIn(words, out)
        self.assertNotIn("segment 2", out)
        out = kvferry("inspect", "--segments", *self.drives)[1]
        self.assertRegex(out, r"segment 2\s+open, normal, generation 12")
        self.assertRegex(out, r"segment 7\s+never used")

    def test_changes_nothing_and_needs_no_lock(self):
        before = self.digests()
        self.report("inspect")
        self.assertEqual(self.digests(), before)
        holder = self.held()
        before = self.digests()
        self.assertEqual(self.report("inspect")["blocks"]["count"], 36)
        self.assertEqual(self.digests(), before)
        self.release(holder)

    def test_names_damaged_copies(self):
        self.overwrite(self.file(1), 2 * 65536 + 40, b"rot")
        report = self.report("inspect", code=1)
        self.assertEqual(report["drives"][1]["copies_good"], [True, True, False, True])
        self.assertRegex(report["problems"][0], "b: damaged copies of the superblock: 2;")
        self.assertEqual(report["blocks"]["count"], 36)

    def test_tells_of_a_drive_without_superblock(self):
        self.overwrite(self.file(1), 0, bytes(MIB))
        report = self.report("inspect", code=1)
        self.assertIsNone(report["store"])
        self.assertEqual(report["drives"][1]["superblock"], "blank")
        code, out, _ = kvferry("inspect", self.drives[0])
        self.assertEqual(code, 1)
        self.assertIn("has 2 drives, but 1", out)

    def test_reads_headers_and_footers_without_a_manifest(self):
        shutil.move(os.path.join(self.drives[0], "manifest"), os.path.join(self.folder, "m"))
        report = self.report("inspect", code=1)
        self.assertIsNone(report["manifest"])
        self.assertEqual(report["blocks"]["count"], 24)
        self.assertEqual(report["segments"]["sealed"], 2)
        self.assertIn("no manifest at", report["notes"][0])
        self.overwrite(self.file(0), MIB + 255 * 4096 + 200, b"rot")
        self.assertEqual(self.report("inspect", code=1)["blocks"]["count"], 12)
        report = self.report("inspect", "--manifest", os.path.join(self.folder, "m"))
        self.assertEqual(report["blocks"]["count"], 36)

    def test_tells_of_a_manifest_that_cannot_be_read(self):
        manifest = os.path.join(self.drives[0], "manifest")
        with open(os.path.join(manifest, "CURRENT"), "wb") as file:
            file.write(b"nothing\n")
        report = self.report("inspect", code=1)
        self.assertIn("the manifest cannot be read", report["problems"][0])
        self.assertEqual(report["blocks"]["count"], 24)

    def test_refuses_what_is_no_drive(self):
        code, _, err = kvferry("inspect", "--json")
        self.assertEqual(code, 2)
        code, _, err = kvferry("inspect", os.path.join(self.folder, "none"))
        self.assertEqual(code, 1)
        self.assertIn("No such file or directory", err)
        self.assertEqual(err.count("No such file"), 1)
        code, _, err = kvferry("inspect", self.file(0))
        self.assertEqual(code, 2)
        self.assertIn("neither a folder nor a block device", err)

    def test_has_its_options_in_the_guide(self):
        with open(os.path.join(DOCS, "store.md"), encoding="utf-8") as file:
            guide = file.read()
        words = kvferry("inspect", "--help")[1]
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", words)) - {"--help"}:
            self.assertIn(f"`{option}", guide)


class FsckTest(StoreTest):
    def test_finds_a_sound_store_sound(self):
        before = self.digests()
        report = self.report("fsck")
        self.assertTrue(report["is_sound"])
        self.assertEqual((report["headers"], report["footers"], report["blocks"]), (3, 2, 36))
        self.assertEqual(report["block_bytes"], sum(int(block[2]) for block in self.blocks))
        self.assertEqual(report["damages"], [])
        self.assertEqual(self.digests(), before)
        code, out, err = kvferry("fsck", *self.drives)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"damage\s+none\n$")

    def test_reports_each_damaged_block_and_changes_nothing(self):
        places = [self.damage(block) for block in (0, 13, 35)]
        before = self.digests()
        report = self.report("fsck", code=1)
        self.assertFalse(report["is_sound"])
        found = [(damage["segment"], damage["page"]) for damage in report["damages"]]
        self.assertEqual(found, places)
        self.assertEqual({damage["kind"] for damage in report["damages"]}, {"payload"})
        self.assertIsNone(report["repair"])
        self.assertEqual(self.digests(), before)
        code, out, _ = kvferry("fsck", *self.drives)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"damage\s+payload 3\n")
        self.assertIn("segment %d, generation 11, page %d: " % places[1], out)

    def test_repairs_by_deleting_rows_of_damaged_blocks(self):
        places = [self.damage(block) for block in (0, 30, 31, 32)]
        data = {drive: self.digests()[self.file(drive)] for drive in (0, 1)}
        report = self.report("fsck", "--repair", code=1)
        self.assertEqual(report["repair"], {"deleted_rows": 4, "quarantined": [places[1][0]]})
        self.assertEqual({drive: self.digests()[self.file(drive)] for drive in (0, 1)}, data)
        again = self.report("fsck")
        self.assertEqual(again["blocks"], 32)
        self.assertEqual(self.report("inspect")["segments"]["quarantined"], 1)

    def test_writes_damaged_copies_of_superblocks_anew_when_told(self):
        self.overwrite(self.file(0), 65536 + 40, b"rot")
        report = self.report("fsck", code=1)
        self.assertRegex(report["superblocks"][0], "a: damaged copies of the superblock: 1$")
        self.report("fsck", "--repair", code=1)
        self.assertTrue(self.report("fsck")["is_sound"])

    def test_reports_headers_footers_and_a_row_of_another_place(self):
        self.overwrite(self.file(0), MIB + 100, b"rot")
        self.overwrite(self.file(1), MIB + 255 * 4096 + 100, b"rot")
        report = self.report("fsck", code=1)
        self.assertEqual([damage["kind"] for damage in report["damages"]], ["header", "footer"])
        self.assertEqual(report["blocks"], 36)
        # Two blocks of one length in each other's place are whole, and wrong all the same.
        path, first, length, _, _ = self.blocks[3]
        _, second, _, _, _ = self.blocks[4]
        with open(path, "r+b") as file:
            file.seek(int(first))
            content = file.read(int(length))
        self.overwrite(path, int(second), content)
        self.assertEqual(self.report("fsck", code=1)["damage_counts"]["payload"], 1)

    def test_refuses_a_store_that_is_in_use(self):
        holder = self.held()
        for arguments in ((), ("--repair",)):
            code, out, err = kvferry("fsck", *arguments, *self.drives)
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err, r"a: (another process|process \d+) has the store open")
        self.release(holder)
        self.report("fsck")

    def test_makes_nothing_where_there_is_nothing(self):
        for arguments in ((), ("--repair",)):
            none = os.path.join(self.folder, "none")
            code, _, err = kvferry("fsck", *arguments, none)
            self.assertEqual(code, 1)
            self.assertIn("holds no store", err)
            self.assertFalse(os.path.exists(none))
            self.assertEqual(kvferry("fsck", *arguments)[0], 2)
            empty = os.path.join(self.folder, "empty")
            os.makedirs(empty, mode=0o700, exist_ok=True)
            code, _, err = kvferry("fsck", *arguments, empty)
            self.assertEqual((code, os.listdir(empty)), (2, []), err)
            code, _, err = kvferry("fsck", *arguments, self.drives[1])
            self.assertEqual(code, 2)
            self.assertIn("has 2 drives, but 1", err)

    def test_needs_a_manifest(self):
        manifest = os.path.join(self.drives[0], "manifest")
        moved = shutil.move(manifest, os.path.join(self.folder, "m"))
        code, _, err = kvferry("fsck", *self.drives)
        self.assertEqual(code, 1)
        self.assertIn("no manifest at", err)
        self.assertFalse(os.path.exists(manifest))
        self.assertTrue(self.report("fsck", "--manifest", moved)["is_sound"])

    def test_makes_a_lost_manifest_from_the_footers(self):
        manifest = os.path.join(self.drives[0], "manifest")
        shutil.rmtree(manifest)
        report = self.report("fsck", "--repair", code=1)
        # Without the segment that was not full, and of eight sizes of blocks only.
        self.assertEqual((report["rebuild"]["segments"], report["rebuild"]["blocks"]), (2, 16))
        self.assertEqual((report["blocks"], sum(report["damage_counts"].values())), (16, 0))
        self.assertTrue(self.report("fsck")["is_sound"])
        with open(os.path.join(manifest, "CURRENT"), "wb") as file:
            file.write(b"nothing\n")
        self.assertIsNotNone(self.report("fsck", "--repair", code=1)["rebuild"])
        self.assertTrue(os.path.exists(manifest + ".damaged"))
        self.assertTrue(self.report("fsck")["is_sound"])

    def test_has_its_options_in_the_guide(self):
        with open(os.path.join(DOCS, "store.md"), encoding="utf-8") as file:
            guide = file.read()
        words = kvferry("fsck", "--help")[1]
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", words)) - {"--help"}:
            self.assertIn(f"`{option}", guide)


if __name__ == "__main__":
    BINARY, MAKER, DOCS = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
