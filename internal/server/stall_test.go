package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// rawServer returns a server in a bubble, and a connection to it for arbitrary bytes.
func rawServer(t *testing.T) (*Server, net.Conn) {
	t.Helper()
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.inProcess.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return s, conn
}

// TestStalledBody checks that a request times out when its client sends less than its
// Content-Length.
func TestStalledBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := rawServer(t)
		defer s.Stop()
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		begin := time.Now()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if took := time.Since(begin); answer.StatusCode != http.StatusGatewayTimeout || took > time.Minute || !answer.Close {
			t.Errorf("%s after %s, close %t", answer.Status, took, answer.Close)
		}
	})
}

// TestStalledHeader checks that the server closes a connection whose client does not complete a
// header.
func TestStalledHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := rawServer(t)
		defer s.Stop()
		defer conn.Close()
		begin := time.Now()
		go func() {
			for range 1000 { // a byte every second
				if _, err := conn.Write([]byte("G")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		_, _ = io.Copy(io.Discard, conn)
		if took := time.Since(begin); took > 40*time.Second {
			t.Errorf("the connection was open for %s", took)
		}
		conn.Close()
		time.Sleep(2 * time.Second)
	})
}

// TestStalledWatch checks that the server ends a watch whose client no longer reads, and no other.
func TestStalledWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := rawServer(t)
		defer s.Stop()
		defer conn.Close()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /api/v1/configmaps?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: x\r\n\r\n")
		good, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer good.Stop()
		synctest.Wait()
		if n := openWatches(t, client); n != 2 {
			t.Fatalf("%d watches are open", n)
		}
		const writes = 40
		for i := range writes {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: map[string]string{"x": strings.Repeat("x", 10_000)}}
			if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range writes {
			<-good.ResultChan()
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := openWatches(t, client); n != 1 {
			t.Errorf("%d watches are open after two minutes", n)
		}
	})
}

// unread requests a list of 4 MB over its own connection, and does not read the response.
func unread(t *testing.T, s *Server, path string) net.Conn {
	t.Helper()
	conn, err := s.inProcess.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nImpersonate-User: reader\r\nImpersonate-Group: system:masters\r\n\r\n", path)
	return conn
}

// fill creates config maps of 4 MB in all.
func fill(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for i := range 40 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: map[string]string{"x": strings.Repeat("x", 100_000)}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreadListsHoldNoSeat checks that other requests are served while more lists are unread than
// there are seats.
func TestUnreadListsHoldNoSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Options{Fairness: fairness.Options{MaxRequestsInFlight: 2, Unfair: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		fill(t, client)
		small := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.Config().Host, Transport: s.Config().Transport, QPS: -1,
			Impersonate: rest.ImpersonationConfig{UserName: "small"}})
		for range 10 {
			defer unread(t, s, "/api/v1/configmaps").Close()
			time.Sleep(time.Second)
			synctest.Wait()
			// Every authenticated user may read this, and it takes a seat.
			if _, err := small.Discovery().ServerVersion(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestUnreadListsEnd checks that the server ends a list whose client reads so slowly that it would
// take an hour.
func TestUnreadListsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := rawServer(t)
		defer s.Stop()
		conn.Close()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		fill(t, client)
		for _, query := range []string{"", "?pretty=true"} {
			slow := unread(t, s, "/api/v1/configmaps"+query)
			defer slow.Close()
			begin := time.Now()
			for piece := make([]byte, 10_000); err == nil; _, err = slow.Read(piece) {
				time.Sleep(10 * time.Second)
			}
			// Bytes that were sent before the server closed the connection can still be read.
			if took := time.Since(begin); took > 5*time.Minute {
				t.Errorf("%q: the response took %s", query, took)
			}
			err = nil
		}
	})
}

// TestUnreadListsAreBounded requests more lists than fit in the memory limit.
func TestUnreadListsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Options{Fairness: fairness.Options{MaxRequestMemory: 8 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		fill(t, client)
		var all []net.Conn
		for range 30 {
			all = append(all, unread(t, s, "/api/v1/configmaps"))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		cut := 0
		for _, conn := range all {
			if n, _ := io.Copy(io.Discard, conn); n < 4_000_000 {
				cut++
			}
			conn.Close()
		}
		if cut == 0 || cut == len(all) {
			t.Errorf("%d of %d lists were incomplete", cut, len(all))
		}
	})
}

// openWatches returns the number of open watches of config maps, from the metrics.
func openWatches(t *testing.T, client kubernetes.Interface) (n int) {
	t.Helper()
	data, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests") && strings.Contains(line, `resource="configmaps"`) {
			fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
		}
	}
	return n
}
