package conversion

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/webhook"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// replacing is a webhook that replaces versions in the bytes of the request, without decoding them,
// so that the benchmark measures the server.
func replacing(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	between := func(from, to string) []byte {
		_, rest, _ := bytes.Cut(body, []byte(from))
		text, _, _ := bytes.Cut(rest, []byte(to))
		return text
	}
	fmt.Fprintf(w, `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{"uid":"%s","result":{"status":"Success"},"convertedObjects":[`, between(`"uid":"`, `"`))
	_, _ = w.Write(bytes.ReplaceAll(between(`"objects":[`, `]},"response"`), []byte(`"example.com/v2"`), []byte(`"example.com/v1"`)))
	_, _ = io.WriteString(w, "]}}")
}

// BenchmarkConvert converts objects of 1.5 KB in one call, with this package and with Kubernetes'
// library.
func BenchmarkConvert(b *testing.B) {
	server := httptest.NewTLSServer(http.HandlerFunc(replacing))
	defer server.Close()
	c := &apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{
		URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
	hooks := NewWebhooks(webhook.Options{})
	defer hooks.Close()
	ours, theirs := hooks.New("foos.example.com", c), newJudge(b, c)
	for _, count := range []int{1, 1000} {
		var fresh func() []Tree
		{
			text := strings.Replace(foo, `"host"`, `"padding":"`+strings.Repeat("x", 1200)+`","host"`, 1)
			fresh = func() []Tree {
				objs := make([]Tree, count)
				for i := range objs {
					objs[i] = parse(b, strings.Replace(text, `"name":"a"`, fmt.Sprintf(`"name":"a%d"`, i), 1))
				}
				return objs
			}
		}
		b.Run(fmt.Sprintf("objects=%d/by=kapok", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				objs := fresh()
				b.StartTimer()
				if _, err := ours.Convert(context.Background(), objs, "example.com/v1"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("objects=%d/by=library", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				list := &unstructured.UnstructuredList{Object: Tree{"apiVersion": "example.com/v1", "kind": "FooList"}}
				for _, obj := range fresh() {
					list.Items = append(list.Items, unstructured.Unstructured{Object: obj})
				}
				b.StartTimer()
				if _, err := theirs.ConvertToVersion(list, schema.GroupVersion{Group: "example.com", Version: "v1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
