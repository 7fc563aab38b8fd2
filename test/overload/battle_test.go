package overload

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// An attack is a row of the table.
type attack struct {
	name string
	// role is the role of the attacker in the namespace attack. Default: edit.
	role string
	// prepare runs as the admin before the victim is measured.
	prepare func(context.Context, *battle) error
	// run attacks until its context is done, and returns when all its goroutines have ended.
	run func(context.Context, *battle)
	// keeps is the memory, in bytes, that the server may still use after the attack for stored
	// objects.
	keeps uint64
}

// A battle is a server and its users.
type battle struct {
	t       *testing.T
	server  *server
	answers tally
	old     string // an early revision, for rows that request it
}

const attacked = "/api/v1/namespaces/attack"

// prepare creates the namespaces and the users.
func (b *battle) prepare(ctx context.Context, a attack) error {
	role := a.role
	if role == "" {
		role = "edit"
	}
	for _, who := range []struct{ user, namespace, role string }{{"victim", "victim", "edit"}, {"attacker", "attack", role}} {
		if _, err := b.server.do(ctx, http.MethodPost, "/api/v1/namespaces", named(who.namespace, nil)); err != nil {
			return err
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "overload"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: who.user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: who.role},
		}
		if _, err := b.server.do(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+who.namespace+"/rolebindings", binding); err != nil {
			return err
		}
	}
	if a.prepare == nil {
		return nil
	}
	return a.prepare(ctx, b)
}

// named returns an object with a name and other fields.
func named(name string, more map[string]any) map[string]any {
	o := map[string]any{"metadata": map[string]any{"name": name}}
	maps.Copy(o, more)
	return o
}

// fill has the admin create n objects.
func (b *battle) fill(ctx context.Context, path string, n int, object func(i int) any) error {
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range n {
			next <- i
		}
	}()
	var errs tally
	crowd(16, func(int) {
		for i := range next {
			if _, err := b.server.do(ctx, http.MethodPost, path, object(i)); err != nil {
				errs.count(err.Error())
			}
		}
	})
	if text := errs.String(); text != "" {
		return errors.New(text)
	}
	return nil
}

// fillConfigMaps has the admin create config maps for the attacker to list.
func fillConfigMaps(n, size int) func(context.Context, *battle) error {
	return func(ctx context.Context, b *battle) error {
		text := strings.Repeat("x", size)
		return b.fill(ctx, attacked+"/configmaps", n*quantity(), func(i int) any {
			return named(fmt.Sprintf("c%05d", i), map[string]any{"data": map[string]any{"text": text}})
		})
	}
}

// quantity scales the number of prepared objects.
func quantity() int { return size().factor }

// lost returns the victim's objects that do not exist.
func (b *battle) lost(ctx context.Context, created []string) ([]string, error) {
	data, err := b.server.do(ctx, http.MethodGet, "/api/v1/namespaces/victim/configmaps", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, item := range list.Items {
		there[item.Metadata.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(created), func(name string) bool { return there[name] }), nil
}

// A tally counts results.
type tally struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

func (c *tally) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[what]++
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		all = append(all, fmt.Sprintf("%s: %d", what, c.counts[what]))
	}
	return strings.Join(all, ", ")
}

// crowd calls a function n times concurrently, and waits.
func crowd(n int, run func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
}

// newClient returns a client with a connection of its own.
func newClient(config *rest.Config, two bool) (*http.Client, error) {
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!two)
	protocols.SetHTTP2(two)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: secure, Protocols: protocols, DisableCompression: true, MaxConnsPerHost: 1}}, nil
}

// A shot is a request of an attacker.
type shot struct {
	method, path, contentType, accept string
	body                              []byte
	// leaves is the time that the client waits for the response after it has sent the request. 0:
	// until its end.
	leaves time.Duration
}

// flood has n clients of the attacker, each with its own connection, send one request after the
// other.
func (b *battle) flood(ctx context.Context, user string, n int, next func(client, i int) shot) {
	config, err := b.server.config(user)
	if err != nil {
		b.answers.count(err.Error())
		return
	}
	crowd(n, func(client int) {
		c, err := newClient(config, client%2 == 0)
		if err != nil {
			b.answers.count(err.Error())
			return
		}
		defer c.CloseIdleConnections()
		for i := 0; ctx.Err() == nil; i++ {
			b.shoot(ctx, c, config.Host, next(client, i))
		}
	})
}

func (b *battle) shoot(ctx context.Context, c *http.Client, host string, s shot) (answer []byte) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var body io.Reader = bytes.NewReader(s.body)
	if s.leaves > 0 {
		body = &lastWords{Reader: bytes.NewReader(s.body), spoken: func() { time.AfterFunc(s.leaves, cancel) }}
	}
	r, err := http.NewRequestWithContext(ctx, s.method, host+s.path, body)
	if err != nil {
		b.answers.count(err.Error())
		return nil
	}
	r.ContentLength = int64(len(s.body))
	if s.contentType != "" {
		r.Header.Set("Content-Type", s.contentType)
	} else if len(s.body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.accept != "" {
		r.Header.Set("Accept", s.accept)
	}
	response, err := c.Do(r)
	if err == nil {
		answer, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		b.answers.count("left")
	case err != nil:
		b.answers.count("error")
		pause(ctx, 10*time.Millisecond)
	default:
		b.answers.count(fmt.Sprint(response.StatusCode))
		if response.StatusCode == http.StatusTooManyRequests {
			pause(ctx, 10*time.Millisecond) // an attacker ignores Retry-After
		}
	}
	return answer
}

// lastWords is a body that signals when it has been read.
type lastWords struct {
	*bytes.Reader
	spoken func()
}

func (l *lastWords) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.Len() == 0 && l.spoken != nil {
		l.spoken()
		l.spoken = nil
	}
	return n, err
}

// dial opens a TLS connection for raw bytes, with a small receive buffer if requested.
func (b *battle) dial(ctx context.Context, user, protocol string, narrow bool) (net.Conn, error) {
	config, err := b.server.config(user)
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	secure.NextProtos = []string{protocol}
	bare, err := b.dialBare(ctx)
	if err != nil {
		return nil, err
	}
	if narrow {
		_ = bare.(*net.TCPConn).SetReadBuffer(2 << 10)
	}
	secure.ServerName, _, _ = net.SplitHostPort(bare.RemoteAddr().String())
	conn := tls.Client(bare, secure)
	if err := conn.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// dialBare opens a connection without TLS.
func (b *battle) dialBare(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(b.server.admin.Host, "https://"))
}

// hold opens n connections, calls say on each, and keeps them until the context is done. If say
// fails or returns, another connection takes the place.
func (b *battle) hold(ctx context.Context, n int, dial func(context.Context) (net.Conn, error), say func(context.Context, net.Conn) error) {
	const atOnce = 32 // connections that are being opened
	opening := make(chan struct{}, atOnce)
	crowd(n, func(int) {
		for ctx.Err() == nil {
			opening <- struct{}{}
			conn, err := dial(ctx)
			<-opening
			if err != nil {
				if ctx.Err() == nil {
					b.answers.count("not connected")
				}
				pause(ctx, 100*time.Millisecond)
				continue
			}
			b.answers.count("connected")
			hung := context.AfterFunc(ctx, func() { conn.Close() })
			_ = say(ctx, conn)
			if hung(); ctx.Err() == nil {
				b.answers.count("cut off")
				pause(ctx, 10*time.Millisecond)
			}
			conn.Close()
		}
	})
}

// silence keeps a connection, and reads nothing.
func silence(ctx context.Context, _ net.Conn) error {
	<-ctx.Done()
	return nil
}
