package controllers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// TestTraces follows the traces of a Deployment from its creation to that of its pods: each write
// of a controller has the reconcile as its parent, which links to the event that caused it, and the
// event has the uid of its object.
func TestTraces(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		m, err := controllers.New(env.Config(), controllers.Options{Names: []string{"deployment", "replicaset"}, Manager: manager.Options{TracerProvider: provider}})
		if err != nil {
			t.Fatal(err)
		}
		env.Go(m.Start)
		d := deployment("web", 2)
		env.Create(d)
		time.Sleep(time.Minute)

		spans := map[trace.SpanID]tracetest.SpanStub{}
		for _, s := range exporter.GetSpans() {
			spans[s.SpanContext.SpanID()] = s
		}
		// causes returns the uids of the objects whose events caused the request.
		causes := func(request tracetest.SpanStub) map[string]bool {
			uids := map[string]bool{}
			for _, l := range spans[request.Parent.SpanID()].Links {
				event := attribute.NewSet(spans[l.SpanContext.SpanID()].Attributes...)
				uid, _ := event.Value("k8s.object.uid")
				uids[uid.AsString()] = true
			}
			return uids
		}
		created := map[string]int{}
		for _, s := range spans {
			method, path, _ := strings.Cut(s.Name, " ")
			if method != "POST" || strings.HasSuffix(path, "/events") {
				continue
			}
			created[path]++
			reconcile := spans[s.Parent.SpanID()].Name
			switch path {
			case "/apis/apps/v1/namespaces/default/replicasets":
				if reconcile != "Reconcile deployment-controller" || !causes(s)[string(d.UID)] {
					t.Errorf("%s by %q after events of %v", s.Name, reconcile, causes(s))
				}
			case "/api/v1/namespaces/default/pods":
				if reconcile != "Reconcile replicaset-controller" || len(causes(s)) == 0 {
					t.Errorf("%s by %q after events of %v", s.Name, reconcile, causes(s))
				}
			}
		}
		if created["/apis/apps/v1/namespaces/default/replicasets"] != 1 || created["/api/v1/namespaces/default/pods"] != 2 {
			t.Errorf("creations: %v", created)
		}
	})
}
