package endpoint

import (
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestGzip(t *testing.T) {
	s := newServer(t)
	for i := range 4 {
		s.must(201, "POST", configMapPath, configMap(fmt.Sprint("c", i), `,"data":{"k":"`+strings.Repeat("x", 100<<10)+`"}`))
	}
	for _, name := range []string{"/c0", ""} { // below the threshold, above the size that spills
		plain := s.do("GET", configMapPath+name, "")
		packed := s.do("GET", configMapPath+name, "", "Accept-Encoding", "deflate, gzip")
		if name == "/c0" {
			if got := packed.Header().Get("Content-Encoding"); got != "" || packed.Body.String() != plain.Body.String() {
				t.Errorf("a small answer is encoded as %q", got)
			}
			continue
		}
		if packed.Header().Get("Content-Encoding") != "gzip" || packed.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("headers: %v", packed.Header())
		}
		z, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := io.ReadAll(z)
		if err != nil || string(unpacked) != plain.Body.String() {
			t.Errorf("unpacked %d bytes, want %d: %v", len(unpacked), plain.Body.Len(), err)
		}
		if list := decode[corev1.ConfigMapList](t, string(unpacked)); len(list.Items) != 4 {
			t.Errorf("%d items", len(list.Items))
		}
	}
}

// Responses share buffers, but no bytes: many clients over HTTP/2.
func TestConcurrentAnswers(t *testing.T) {
	s := newServer(t)
	for i := range 20 {
		s.must(201, "POST", configMapPath, configMap(fmt.Sprint("c", i), fmt.Sprintf(`,"data":{"k":"%d"}`, i)))
	}
	web := httptest.NewUnstartedServer(s.Handler)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	client := web.Client()
	client.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"h2"}
	client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	get := func(path string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", web.URL+path, nil)
		if err != nil {
			return "", err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		if answer.ProtoMajor != 2 || answer.StatusCode != 200 {
			return "", fmt.Errorf("%s %s", answer.Proto, answer.Status)
		}
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	list, err := get(configMapPath)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 40 {
				name := fmt.Sprint("c", (i+j)%20)
				text, err := get(configMapPath + "/" + name)
				if err != nil || !strings.Contains(text, `"name":"`+name+`"`) {
					t.Errorf("%s: %s %v", name, text, err)
					return
				}
				if again, err := get(configMapPath); err != nil || again != list {
					t.Errorf("the list has changed: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestAppendBare(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", configMapPath, configMap("a", `,"data":{"kind":"x","apiVersion":"\\\"}"}`))
	form := s.must(200, "GET", configMapPath+"/a", "")
	list := s.must(200, "GET", configMapPath, "")
	bare := strings.Replace(strings.Replace(strings.TrimSpace(form), `"apiVersion":"v1",`, "", 1), `"kind":"ConfigMap",`, "", 1)
	if !strings.Contains(list, "["+bare+"]") {
		t.Errorf("list %s\nlacks %s", list, bare)
	}
}
