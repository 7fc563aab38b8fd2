package kapok

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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// rawServer is a server in a bubble, and a connection to it that says what it likes.
func rawServer(t *testing.T) (*Server, net.Conn) {
	t.Helper()
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.inside.pipes.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return s, conn
}

// TestStalledBody cuts off a client that does not send what it has announced.
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

// TestStalledHeader cuts off a client that does not come to the end of its header.
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
			t.Errorf("the connection lived for %s", took)
		}
		conn.Close()
		time.Sleep(2 * time.Second)
	})
}

// TestStalledWatch ends a watch whose client has ceased to read, and one whose client reads goes on.
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

// openWatches reads from the metrics how many watches of config maps there are.
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
