package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// index is the page itself. It is served at all paths that are not those of a file, since the path
// says which view the page shows.
const index = "index.html"

// policy lets the page load only what this server serves, and run no script that is part of a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secure sets the headers of all responses below Path.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// file is a file of the page.
type file struct {
	plain, zipped []byte
	kind          string // media type
	tag           string // ETag
}

// files returns the files by their paths below Path. They are read and compressed by the first
// request.
var files = sync.OnceValue(func() map[string]*file {
	all := map[string]*file{}
	_ = fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		all[strings.TrimPrefix(name, "dist")] = &file{
			plain: plain, zipped: compress(plain), kind: mime.TypeByExtension(path.Ext(name)), tag: hex.EncodeToString(sum[:16]),
		}
		return nil
	}) // reading embedded files does not fail
	return all
})

func compress(plain []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = w.Write(plain)                                 // into memory
	_ = w.Close()
	return b.Bytes()
}

// serveFile serves a file, or the page for paths that are not those of a file.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	f := files()[name]
	switch {
	case strings.HasPrefix(name, "/assets/"):
		if f == nil { // of another version of the page
			h.Set("Cache-Control", "no-store")
			http.NotFound(w, r)
			return
		}
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // the name contains a hash
	case f == nil:
		f = files()["/"+index]
		fallthrough
	default:
		h.Set("Cache-Control", "no-cache")
	}
	if f == nil {
		http.NotFound(w, r)
		return
	}
	body, tag := f.plain, f.tag
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && len(f.zipped) < len(f.plain) {
		h.Set("Content-Encoding", "gzip")
		body, tag = f.zipped, f.tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	if strings.Contains(r.Header.Get("If-None-Match"), `"`+tag+`"`) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client has gone if it fails
	}
}
