package server

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestInformersReachWhatWasWritten checks that an informer reaches the resourceVersion in the
// response to a write with the event of that write. The controllers of Kubernetes 1.37 compare the
// two, and wait until the informer has caught up ("read version is not as new as written version").
func TestInformersReachWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := Start(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until the namespace has its service account
		factory := informers.NewSharedInformerFactory(client, 0)
		pods := factory.Core().V1().Pods().Informer()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		defer func() { cancel(); factory.Shutdown() }()

		const path = "/api/v1/namespaces/default/pods"
		const spec = `"spec":{"terminationGracePeriodSeconds":5,"containers":[{"name":"a","image":"b"}]`
		to := client.CoreV1().RESTClient()
		for _, step := range []struct {
			name    string
			request *rest.Request
		}{
			{"create", send(to.Post(), path, `{"metadata":{"name":"p"},`+spec+`}}`)},
			{"patch", send(to.Patch(types.MergePatchType), path+"/p", `{"metadata":{"labels":{"a":"b"}}}`)},
			{"patch that changes nothing", send(to.Patch(types.MergePatchType), path+"/p", `{"metadata":{"labels":{"a":"b"}}}`)},
			{"status", send(to.Patch(types.MergePatchType), path+"/p/status", `{"status":{"phase":"Running"}}`)},
			{"apply", send(to.Patch(types.ApplyPatchType).Param("fieldManager", "m"), path+"/p", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"c":"d"}}}`)},
			{"bound", send(to.Post(), path, `{"metadata":{"name":"q"},`+spec+`,"nodeName":"n"}}`)},
			{"delete of what has no grace", send(to.Delete(), path+"/p", "")},
			{"delete with grace", send(to.Delete(), path+"/q", "")},
			{"the end of grace", send(to.Delete().Param("gracePeriodSeconds", "0"), path+"/q", "")},
		} {
			data, err := step.request.Do(ctx).Raw()
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			var answer metav1.PartialObjectMetadata
			if err := json.Unmarshal(data, &answer); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			synctest.Wait()
			read := pods.GetStore().LastStoreSyncResourceVersion()
			if order, err := resourceversion.CompareResourceVersion(answer.ResourceVersion, read); err != nil || order > 0 {
				t.Errorf("%s: the response has resourceVersion %q, the informer %q, %v", step.name, answer.ResourceVersion, read, err)
			}
		}
	})
}

func send(r *rest.Request, path, body string) *rest.Request {
	return r.AbsPath(path).Body([]byte(body))
}
