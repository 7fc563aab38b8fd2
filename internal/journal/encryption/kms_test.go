package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/test/kmsplugin"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kms/pkg/service"
)

// A plugged is a configuration whose plugins run in the test, without a network. Use it in a
// bubble of synctest.
type plugged struct {
	*Config
	t       testing.TB
	log     logbook
	plugins map[string]*kmsplugin.Plugin // by the paths of their sockets
	open    atomic.Int32                 // connections
	dials   atomic.Int32
}

// local is a connection with a plugin in the test.
type local struct {
	*kmsplugin.Plugin
	closed context.CancelFunc
	ctx    context.Context
	on     *plugged
}

func (l local) Close() error {
	l.on.open.Add(-1)
	l.closed()
	return nil
}

// during cancels a call when the connection is closed, as gRPC does.
func (l local) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(l.ctx, cancel)
	return ctx, cancel
}

func (l local) Status(ctx context.Context) (*service.StatusResponse, error) {
	ctx, cancel := l.during(ctx)
	defer cancel()
	return l.Plugin.Status(ctx)
}

func (l local) Decrypt(ctx context.Context, uid string, r *service.DecryptRequest) ([]byte, error) {
	ctx, cancel := l.during(ctx)
	defer cancel()
	return l.Plugin.Decrypt(ctx, uid, r)
}

// plug loads a configuration with plugins at sockets, which each have the key of their name.
func plug(t testing.TB, text string, sockets ...string) *plugged {
	t.Helper()
	p := &plugged{t: t, plugins: map[string]*kmsplugin.Plugin{}}
	for _, s := range sockets {
		p.plugins[s] = kmsplugin.New(s)
	}
	p.load(file(t, text))
	return p
}

func (p *plugged) load(name string) {
	p.t.Helper()
	c, err := load(p.t.Context(), name, testPaths, slog.New(slog.NewTextHandler(&p.log, nil)), p.dial)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Config = c
}

func (p *plugged) dial(endpoint, _ string) (plugin, error) {
	at := p.plugins[strings.TrimPrefix(endpoint, "unix://")]
	if at == nil {
		at = kmsplugin.New("")
		at.Fail(status.Error(codes.Unavailable, "no plugin at "+endpoint))
	}
	p.open.Add(1)
	p.dials.Add(1)
	ctx, cancel := context.WithCancel(context.Background())
	return local{at, cancel, ctx, p}, nil
}

// close closes the configuration, and checks that nothing is left of it.
func (p *plugged) close() {
	p.t.Helper()
	p.Close()
	if n := p.open.Load(); n != 0 {
		p.t.Errorf("%d connections are left", n)
	}
}

func (p *plugged) seal(payload string) []byte {
	p.t.Helper()
	stored, err := p.Seal(secret, objectOf(secret, payload))
	if err != nil {
		p.t.Fatal(err)
	}
	return stored
}

// opens checks that stored bytes are decrypted.
func (p *plugged) opens(stored []byte, payload string, wantStale bool) {
	p.t.Helper()
	raw, stale, err := p.Open(secret, stored)
	if err != nil || !bytes.Equal(raw, objectOf(secret, payload)) || stale != wantStale {
		p.t.Errorf("opened %s, stale %v, %v; want %s, stale %v", raw, stale, err, payload, wantStale)
	}
}

// refuses checks that an error is there, and has a text.
func refuses(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant ... %s", err, want)
	}
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var oops = status.Error(codes.Unavailable, "oops")

func TestKMS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plug(t, configOf("secrets: kms/vault=/a identity"), "/a")
		defer p.close()
		stored := p.seal("one")
		if got := headerOf(stored); got != "k8s:enc:kms:v2:vault:" || bytes.Contains(stored, []byte("one")) {
			t.Errorf("stored %q", stored)
		}
		p.opens(stored, "one", false)
		p.opens(objectOf(secret, "two"), "two", true)
		if _, _, err := p.Open(keyOf("secrets", "default", "other"), stored); !errors.Is(err, journal.ErrUnopened) {
			t.Errorf("opened at another place: %v", err)
		}
		if raw, _, err := p.Open(secret, []byte("k8s:enc:kms:v2:vault:")); raw != nil || !errors.Is(err, journal.ErrUnopened) {
			t.Errorf("opened %q, %v", raw, err)
		}
		for i := range stored[len("k8s:enc:kms:v2:vault:"):] { // one bit is wrong
			damaged := bytes.Clone(stored)
			damaged[len("k8s:enc:kms:v2:vault:")+i] ^= 1
			if raw, _, err := p.Open(secret, damaged); err == nil && !bytes.Equal(raw, objectOf(secret, "one")) {
				t.Errorf("opened %q with a wrong byte %d", raw, i)
			}
		}
		if got := p.current.Load().providers["vault"].config.Timeout.Duration; got != 3*time.Second {
			t.Errorf("default timeout %s", got)
		}
		plugin := p.plugins["/a"]
		decrypted := plugin.Calls("Decrypt") // of wrong seeds
		for i := range 100 {
			p.opens(p.seal(fmt.Sprint(i)), fmt.Sprint(i), false)
		}
		if n := plugin.Calls("Encrypt"); n != 1 {
			t.Errorf("%d calls of Encrypt", n)
		}
		if n := plugin.Calls("Decrypt"); n != decrypted {
			t.Errorf("%d calls of Decrypt for its own seed", n-decrypted)
		}

		again := plug(t, configOf("secrets: kms/vault=/a"), "/a")
		defer again.close()
		for range 3 {
			again.opens(stored, "one", false)
		}
		if n := again.plugins["/a"].Calls("Decrypt"); n != 1 {
			t.Errorf("%d calls of Decrypt for one seed", n)
		}
		wait(10 * time.Minute)
		if n := plugin.Calls("Status"); n != 11 {
			t.Errorf("%d checks in ten minutes", n)
		}
		if text := p.log.take(); text != "" {
			t.Error(text)
		}
	})
}

// TestKMSRotation changes the key of a plugin.
func TestKMSRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plug(t, configOf("secrets: kms/vault=/a"), "/a")
		defer p.close()
		first := p.seal("one")
		wait(time.Hour)
		if at := p.Changed(); !at.IsZero() {
			t.Errorf("changed at %s", at)
		}
		p.plugins["/a"].Rotate("second")
		p.opens(first, "one", false)
		before := time.Now()
		wait(checkHealthyEvery)
		p.opens(first, "one", true)
		second := p.seal("two")
		p.opens(second, "two", false)
		if at := p.Changed(); !at.After(before) {
			t.Errorf("changed at %s, rotated after %s", at, before)
		}
		if text := p.log.take(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "encrypts with another key") || strings.Contains(text, "second") {
			t.Error(text)
		}
		// A plugin that cannot encrypt with its new key leaves the old seed in use for a while.
		p.plugins["/a"].Answer(func(_ context.Context, s *service.StatusResponse) error {
			if s == nil {
				return oops
			}
			s.KeyID = "third"
			return nil
		})
		wait(checkHealthyEvery)
		p.opens(p.seal("three"), "three", false)
		refuses(t, p.Health(), "encrypt a seed: failed to encrypt DEK, error: rpc error: code = Unavailable desc = oops")
		wait(seedLasts)
		refuses(t, p.Ready(secret), "oops")
	})
}

// TestKMSDown stops a plugin while a server runs.
func TestKMSDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plug(t, configOf("secrets: kms/vault=/a", "pods: aesgcm/k"), "/a")
		defer p.close()
		stored := p.seal("one")
		wait(checkHealthyEvery) // the seed is confirmed now
		p.plugins["/a"].Fail(oops)
		wait(seedLasts)
		p.opens(p.seal("two"), "two", false)
		p.opens(stored, "one", false)
		if text := p.log.take(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "KMS plugin is not healthy") || !strings.Contains(text, "oops") {
			t.Error(text)
		}
		wait(time.Second)
		_, sealing := p.Seal(secret, objectOf(secret, "three"))
		for _, err := range []error{sealing, p.Ready(secret), p.Under("/other").(under).Ready(secret)} {
			refuses(t, err, `/secrets/default/token: KMS provider "vault": the plugin has not been healthy for 3m0s: KMS plugin at unix:///a: rpc error: code = Unavailable desc = oops`)
		}
		refuses(t, p.Health(), "KMS plugin at unix:///a: ")
		p.opens(stored, "one", false)
		if err := p.Ready(keyOf("pods", "default", "a")); err != nil {
			t.Error(err)
		}
		p.plugins["/a"].Fail(nil)
		wait(checkUnhealthyEvery)
		p.opens(p.seal("four"), "four", false)
		if err := p.Health(); err != nil {
			t.Error(err)
		}
		if text := p.log.take(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "healthy again") {
			t.Error(text)
		}
	})
}

// TestKMSStartsLate starts a configuration before its plugin.
func TestKMSStartsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := func() []byte {
			p := plug(t, configOf("secrets: kms/vault=/a"), "/a")
			defer p.close()
			return p.seal("one")
		}()
		p := &plugged{t: t, plugins: map[string]*kmsplugin.Plugin{"/a": kmsplugin.New("/a")}}
		p.plugins["/a"].Hang()
		start := time.Now()
		p.load(file(t, configOf("secrets: kms/vault=/a identity")))
		defer p.close()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the load took %s", took)
		}
		if text := p.log.take(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "KMS plugin is not healthy") {
			t.Error(text)
		}
		refuses(t, p.Ready(secret), `encrypt /registry/secrets/default/token: KMS provider "vault": the plugin has not encrypted a seed yet: KMS plugin at unix:///a: context deadline exceeded`)
		_, _, err := p.Open(secret, stored)
		refuses(t, err, `/registry/secrets/default/token cannot be decrypted with KMS provider "vault" of `+p.file+`: the plugin has not encrypted a seed yet: `)
		if !errors.Is(err, journal.ErrUnopened) {
			t.Error(err)
		}
		p.plugins["/a"].Fail(nil)
		wait(checkUnhealthyEvery)
		p.opens(stored, "one", false)
		p.opens(p.seal("two"), "two", false)
		if at := p.Changed(); !at.IsZero() {
			t.Errorf("changed at %s", at)
		}
	})
}

// TestKMSHangs decrypts with a plugin that does not respond.
func TestKMSHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := plug(t, configOf("secrets: kms/vault=/a"), "/a")
		defer other.close()
		foreign := other.seal("one")
		p := plug(t, configOf("secrets: kms/vault=/a"), "/a")
		own := p.seal("two")
		p.plugins["/a"].Hang()
		calls := func() int { return p.plugins["/a"].Calls("Decrypt") }
		for i, want := range []time.Duration{3 * time.Second, 0, 0} {
			start := time.Now()
			_, _, err := p.Open(secret, foreign)
			refuses(t, err, "deadline exceeded")
			if took := time.Since(start); took != want || calls() != 1 {
				t.Errorf("call %d took %s, want %s; the plugin was called %d times", i, took, want, calls())
			}
			p.opens(own, "two", false)
			p.opens(p.seal("three"), "three", false)
		}
		wait(silenceLasts)
		_, _, err := p.Open(secret, foreign)
		refuses(t, err, "deadline exceeded")
		if calls() != 2 {
			t.Errorf("the plugin was called %d times", calls())
		}
		p.plugins["/a"].Fail(nil)
		wait(silenceLasts)
		p.opens(foreign, "one", false)

		// An error of the plugin itself does not keep others from being decrypted.
		p.plugins["/a"].Fail(errors.New("no such key"))
		third := plug(t, configOf("secrets: kms/vault=/a"), "/a")
		defer third.close()
		unknown := third.seal("four")
		_, _, err = p.Open(secret, unknown)
		refuses(t, err, "failed to decrypt DEK, error: no such key")
		p.plugins["/a"].Fail(nil)
		p.opens(unknown, "four", false)

		// Close does not wait for the plugin.
		p.plugins["/a"].Hang()
		wait(checkHealthyEvery - time.Second)
		start := time.Now()
		var running sync.WaitGroup
		running.Go(func() { _ = p.Health() })
		wait(time.Second)
		p.close()
		running.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %s", took)
		}
	})
}

// TestKMSStatus checks what a plugin reports.
func TestKMSStatus(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for _, test := range []struct {
		name   string
		status service.StatusResponse
		want   string
	}{
		{"beta", service.StatusResponse{Version: "v2beta1", Healthz: "ok", KeyID: "/a"}, ""},
		{"not healthy", service.StatusResponse{Version: "v2", Healthz: "bad", KeyID: "/a"}, `it reports that it is not healthy: "bad"`},
		{"v1", service.StatusResponse{Version: "v1", Healthz: "ok", KeyID: "/a"}, `it reports version "v1" of the KMS API: must be v2 or v2beta1`},
		{"no key", service.StatusResponse{Version: "v2", Healthz: "ok"}, "it reports an invalid key: keyID is empty"},
		{"long key", service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: long}, "it reports an invalid key: keyID is 1025 bytes"},
		{"another key", service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "other"}, "it reports key " + hash("other") + ", but has encrypted with key " + hash("/a")},
		{"all at once", service.StatusResponse{}, "[it reports that it is not healthy: \"\", it reports version \"\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &plugged{t: t, plugins: map[string]*kmsplugin.Plugin{"/a": kmsplugin.New("/a")}}
				p.plugins["/a"].Answer(func(_ context.Context, s *service.StatusResponse) error {
					if s != nil {
						*s = test.status
					}
					return nil
				})
				p.load(file(t, configOf("secrets: kms/vault=/a")))
				defer p.close()
				err := p.Health()
				if test.want == "" && err == nil {
					p.opens(p.seal("one"), "one", false)
					p.plugins["/a"].Answer(nil)
					wait(checkHealthyEvery)
					test.want, err = `it reports version "v2" of the KMS API, and reported "v2beta1" before`, p.Health()
				}
				refuses(t, err, test.want)
			})
		})
	}
}

// TestKMSReload changes the providers of a file.
func TestKMSReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plug(t, configOf("secrets: kms/one=/a identity"), "/a", "/b", "/c")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Watch(ctx) })
		// write puts a file in force, and returns what is logged.
		write := func(rules ...string) string {
			t.Helper()
			if err := os.WriteFile(p.file, []byte(configOf(rules...)), 0o600); err != nil {
				t.Fatal(err)
			}
			wait(reload.Every + time.Second)
			return p.log.take()
		}
		connections := func(open, dials int32) {
			t.Helper()
			if o, d := p.open.Load(), p.dials.Load(); o != open || d != dials {
				t.Errorf("%d connections of %d, want %d of %d", o, d, open, dials)
			}
		}
		loaded := func(text string) {
			t.Helper()
			if !strings.Contains(text, "encryption configuration loaded") || strings.Contains(text, "level=ERROR") {
				t.Error(text)
			}
		}
		rejected := func(text, want string) {
			t.Helper()
			if !strings.Contains(text, "previous version remains") || !strings.Contains(text, want) || strings.Count(text, "\n") != 1 {
				t.Errorf("got  %s\nwant ... %s", text, want)
			}
		}
		one := p.seal("one")
		connections(1, 1)

		loaded(write("secrets: kms/two=/b kms/one=/a"))
		connections(2, 2)
		p.opens(one, "one", true)
		two := p.seal("two")
		if headerOf(two) != "k8s:enc:kms:v2:two:" {
			t.Errorf("stored %q", two)
		}

		// A new provider must be healthy; nothing of a rejected file is left.
		rejected(write("secrets: kms/new=/nowhere kms/two=/b"), "no plugin at unix:///nowhere")
		rejected(write("secrets: kms/one=/a"), "could no longer be read")
		rejected(write("secrets: kms/two=/c kms/one=/a"), "could no longer be read") // it does not have the key
		rejected(write("secrets: aesgcm/k", "pods: kms/two=/b"), "could no longer be read")
		connections(2, p.dials.Load())

		// A provider that is not healthy does not keep the file from being corrected.
		p.plugins["/b"].Fail(oops)
		wait(time.Hour)
		refuses(t, p.Ready(secret), "oops")
		p.log.take()
		loaded(write("secrets: aesgcm/k kms/two=/b kms/one=/a"))
		loaded(write("secrets: kms/two=/b aesgcm/k kms/one=/a"))
		rejected(write("secrets: aesgcm/k kms/one=/a"), "could no longer be read")
		p.plugins["/c"].Rotate("/b") // is the successor
		loaded(write("secrets: kms/two=/c aesgcm/k"))
		connections(1, p.dials.Load())
		p.opens(two, "two", false)
		if headerOf(p.seal("three")) != "k8s:enc:kms:v2:two:" {
			t.Error("the provider was not replaced")
		}
		if _, _, err := p.Open(secret, one); !errors.Is(err, journal.ErrUnopened) {
			t.Errorf("opened with a provider that was removed: %v", err)
		}
		cancel()
		running.Wait()
		p.close()
	})
}

// TestKMSReloadMeanwhile opens objects while their provider is replaced by an equal one.
func TestKMSReloadMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plug(t, configOf("secrets: kms/one=/a"), "/a", "/b")
		other := plug(t, configOf("secrets: kms/one=/a"), "/a")
		defer other.close()
		stored := other.seal("one")
		p.plugins["/b"].Rotate("/a")
		wait(healthyFor)
		p.plugins["/a"].Hang()
		var running sync.WaitGroup
		running.Go(func() { p.opens(stored, "one", false) }) // waits for the first plugin
		running.Go(func() {
			if err := p.Health(); err != nil {
				t.Error(err)
			}
		})
		wait(time.Second)
		if err := os.WriteFile(p.file, []byte(configOf("secrets: kms/one=/b")), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := p.source.Refresh(t.Context()); !changed || err != nil {
			t.Fatalf("changed %v, %v", changed, err)
		}
		running.Wait()
		p.close()
	})
}

// socketOf returns a path for a socket, which must be short.
func socketOf(t testing.TB) string {
	dir, err := os.MkdirTemp("", "kms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func serve(t testing.TB, socket string, p service.Service) *kmsplugin.Server {
	t.Helper()
	server, err := kmsplugin.Serve(socket, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// TestKMSJudge checks that Kapok and kube-apiserver read what the other has encrypted with a
// plugin behind a socket, also after the plugin has been started again with another key, and that
// both agree on what is stale.
func TestKMSJudge(t *testing.T) {
	socket := socketOf(t)
	p := kmsplugin.New("first")
	server := serve(t, socket, p)
	name := file(t, configOf("secrets: kms/judged="+socket+" identity", "pods: identity kms/second="+socket))
	ours, err := loadFile(t, name)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := judgeOf(t, name)
	if err != nil {
		t.Fatal(err)
	}
	path := Registry + testPaths.Of(secret)
	raw := objectOf(secret, "value")
	both := func(c *Config, j judge) (all [][]byte) {
		t.Helper()
		byUs, err := c.Seal(secret, raw)
		if err != nil {
			t.Fatal(err)
		}
		byThem, err := j.seal(path, secret, raw)
		if err != nil {
			t.Fatal(err)
		}
		if headerOf(byUs) != headerOf(byThem) || len(byUs) != len(byThem) {
			t.Errorf("stored as %q, by the judge as %q", byUs, byThem)
		}
		return [][]byte{byUs, byThem}
	}
	agree := func(c *Config, j judge, stored []byte, wantStale bool) {
		t.Helper()
		got, stale, err := c.Open(secret, stored)
		if err != nil || !bytes.Equal(got, raw) || stale != wantStale {
			t.Errorf("opened %s, stale %v, %v; want stale %v", got, stale, err, wantStale)
		}
		got, stale, err = j.open(path, secret, stored)
		if err != nil || !bytes.Equal(got, raw) || stale != wantStale {
			t.Errorf("the judge opened %s, stale %v, %v; want stale %v", got, stale, err, wantStale)
		}
	}
	first := both(ours, theirs)
	for _, stored := range append(first, raw) {
		agree(ours, theirs, stored, bytes.Equal(stored, raw))
	}
	moved := keyOf("secrets", "default", "moved")
	if _, _, err := ours.Open(moved, first[1]); err == nil {
		t.Error("opened at another place")
	}

	server.Close()
	p.Rotate("second")
	serve(t, socket, p)
	ours, err = loadFile(t, name)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = judgeOf(t, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, stored := range first {
		agree(ours, theirs, stored, true)
	}
	for _, stored := range both(ours, theirs) {
		agree(ours, theirs, stored, false)
	}
}

// TestKMSSocket starts and stops a plugin behind a socket.
func TestKMSSocket(t *testing.T) {
	socket := socketOf(t)
	text := strings.Replace(configOf("secrets: kms/vault="+socket), "apiVersion: v2", "apiVersion: v2, timeout: 50ms", 1)
	c, err := loadFile(t, file(t, text))
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, c.Ready(secret), "connect: no such file or directory")
	v := c.current.Load().providers["vault"]
	check := func() error {
		v.verdict.Store(nil) // as if it were old
		return v.check(t.Context())
	}
	p := kmsplugin.New("first")
	server := serve(t, socket, p)
	for check() != nil { // connects again within a second
	}
	stored, err := c.Seal(secret, objectOf(secret, "value"))
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	refuses(t, check(), "KMS plugin at unix://"+socket)
	if _, _, err := c.Open(secret, stored); err != nil {
		t.Error(err)
	}
	start := time.Now()
	if _, err := v.plugin.Decrypt(t.Context(), "", &service.DecryptRequest{}); status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a call of an absent plugin took %s", took)
	}
	server = serve(t, socket, p)
	for check() != nil {
	}
	// A hung plugin does not keep the configuration from being closed.
	p.Hang()
	c.Close()
	_, err = v.plugin.plugin.Status(t.Context())
	if status.Code(err) != codes.Canceled {
		t.Errorf("a call after Close: %v", err)
	}
	server.Close()
}
