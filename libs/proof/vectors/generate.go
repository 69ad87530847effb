// Makes golang-tlog.json with implementations that are not ours: golang.org/x/mod v0.43.0 (sumdb/tlog, sumdb/note) and
// github.com/transparency-dev/merkle v0.0.2. In an empty module: go get both, go run . > golang-tlog.json.
package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type hashes []tlog.Hash

func (h hashes) ReadHashes(idx []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(idx))
	for i, x := range idx {
		out[i] = h[x]
	}
	return out, nil
}

type detRand struct{ c byte }

func (d *detRand) Read(p []byte) (int, error) {
	for i := range p {
		d.c++
		p[i] = d.c
	}
	return len(p), nil
}

func b(h []byte) string { return base64.StdEncoding.EncodeToString(h) }
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	const max = 70000
	var st hashes
	for i := int64(0); i < max; i++ {
		hs, err := tlog.StoredHashes(i, []byte(fmt.Sprintf("leaf %d", i)), st)
		must(err)
		st = append(st, hs...)
	}
	root := func(n int64) tlog.Hash { h, err := tlog.TreeHash(n, st); must(err); return h }
	out := map[string]any{}
	roots := map[string]string{}
	for _, n := range []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 100, 255, 256, 257, 511, 512, 513, 1000, 4095, 65535, 65536, 65537, 65792, 66000, max} {
		h := root(n)
		roots[fmt.Sprint(n)] = b(h[:])
	}
	out["roots"] = roots
	var inc []any
	for _, c := range [][2]int64{{1, 0}, {2, 0}, {2, 1}, {3, 2}, {7, 0}, {7, 3}, {7, 4}, {7, 6}, {8, 7}, {256, 0}, {256, 255}, {257, 256}, {513, 0}, {513, 511}, {513, 512}, {1000, 999}, {65537, 65536}, {66000, 12345}, {66000, 65999}, {max, 0}, {max, 69999}} {
		p, err := tlog.ProveRecord(c[0], c[1], st)
		must(err)
		var path []string
		var raw [][]byte
		for _, h := range p {
			h := h
			path = append(path, b(h[:]))
			raw = append(raw, h[:])
		}
		r := root(c[0])
		lh := rfc6962.DefaultHasher.HashLeaf([]byte(fmt.Sprintf("leaf %d", c[1])))
		must(proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(c[1]), uint64(c[0]), lh, raw, r[:]))
		if path == nil {
			path = []string{}
		}
		inc = append(inc, map[string]any{"size": c[0], "index": c[1], "path": path})
	}
	out["inclusion"] = inc
	var con []any
	for _, c := range [][2]int64{{1, 1}, {1, 2}, {2, 3}, {3, 7}, {4, 7}, {6, 7}, {7, 7}, {6, 8}, {8, 9}, {255, 256}, {256, 257}, {256, 512}, {257, 1000}, {512, 513}, {1000, 66000}, {65536, 65537}, {65535, max}, {66000, max}} {
		p, err := tlog.ProveTree(c[1], c[0], st)
		must(err)
		path := []string{}
		var raw [][]byte
		for _, h := range p {
			h := h
			path = append(path, b(h[:]))
			raw = append(raw, h[:])
		}
		r1, r2 := root(c[0]), root(c[1])
		must(proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(c[0]), uint64(c[1]), raw, r1[:], r2[:]))
		con = append(con, map[string]any{"from": c[0], "to": c[1], "path": path})
	}
	out["consistency"] = con
	// Tiles of the largest tree: SHA-256 of each tile's bytes, by path.
	tiles := map[string]string{}
	for _, t := range tlog.NewTiles(8, 0, max) {
		data, err := tlog.ReadTileData(t, st)
		must(err)
		s := sha256.Sum256(data)
		// golang writes tile/8/L/..., C2SP tile/L/...
		tiles["tile/"+t.Path()[len("tile/8/"):]] = fmt.Sprintf("%x", s)
	}
	out["tiles"] = map[string]any{"size": max, "sha256": tiles}
	r := &detRand{}
	skey, vkey, err := note.GenerateKey(r, "hookledger/0c5f9d3e-1d2a-4a5b-8c7d-112233445566")
	must(err)
	skey2, vkey2, err := note.GenerateKey(r, "witness.example/w")
	must(err)
	s1, err := note.NewSigner(skey)
	must(err)
	s2, err := note.NewSigner(skey2)
	must(err)
	h := root(1000)
	text := fmt.Sprintf("hookledger/0c5f9d3e-1d2a-4a5b-8c7d-112233445566/a%%20b\n1000\n%s\n", b(h[:]))
	n1, err := note.Sign(&note.Note{Text: text}, s1)
	must(err)
	n2, err := note.Sign(&note.Note{Text: text}, s1, s2)
	must(err)
	n3, err := note.Sign(&note.Note{Text: "über\n\nempty lines are text\n"}, s2)
	must(err)
	out["notes"] = map[string]any{"signerKey": skey, "verifierKey": vkey, "witnessKey": vkey2, "checkpoint": string(n1), "cosigned": string(n2), "words": string(n3)}
	j, _ := json.MarshalIndent(out, "", "  ")
	os.Stdout.Write(append(j, '\n'))
}
