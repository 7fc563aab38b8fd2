package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/crd/conversion/hooktest"
)

var anyRevision = regexp.MustCompile(`revision=\d+`)

const foos2 = "/apis/example.com/v2/namespaces/default/foos"

// A converting server has Foos in two versions: v1 has a spec.hostPort; v2, the storage version,
// has a spec.host and a spec.port. A webhook converts.
type converting struct {
	*raw
	hook *hooktest.Hook
}

func startConverting(t testing.TB) *converting {
	t.Helper()
	return convertOn(startRaw(t, kapok.Options{V1beta1CRDs: true}))
}

// convertOn creates the definition on a server.
func convertOn(r *raw) *converting {
	r.Helper()
	c := &converting{r, hooktest.Start(r, hostPorts(nil))}
	c.must(201, "POST", crds, c.crd("v2", `"url":"`+c.hook.URL+`","caBundle":"`+base64.StdEncoding.EncodeToString(c.hook.CA)+`"`))
	c.established()
	return c
}

// crd returns the definition with a storage version and a webhook.
func (c *converting) crd(storage, client string) string {
	version := func(name, more, spec string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},%s,
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"spec":{"type":"object","properties":{"replicas":{"type":"integer"},%s}}}}}}`, name, name == storage, more, spec)
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},"spec":{
		"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{%s}}},"versions":[%s,%s]}}`, client,
		version("v1", `"selectableFields":[{"jsonPath":".spec.hostPort"}],"additionalPrinterColumns":[{"name":"HostPort","type":"string","jsonPath":".spec.hostPort"}]`,
			`"hostPort":{"type":"string"}`),
		version("v2", `"selectableFields":[{"jsonPath":".spec.host"}],"additionalPrinterColumns":[{"name":"Port","type":"string","jsonPath":".spec.port"}]`,
			`"host":{"type":"string"},"port":{"type":"string"},"weight":{"type":"integer","default":5}`))
}

// hostPorts converts correctly, and then applies change to each object.
func hostPorts(change func(obj, metadata map[string]any)) func(*hooktest.Review) any {
	return func(r *hooktest.Review) any {
		for _, obj := range r.Request.Objects {
			obj["apiVersion"] = r.Request.Desired
			if spec, ok := obj["spec"].(map[string]any); ok {
				if r.Request.Desired == "example.com/v1" {
					spec["hostPort"] = fmt.Sprintf("%v:%v", spec["host"], spec["port"])
					for _, field := range []string{"host", "port", "weight"} {
						delete(spec, field)
					}
				} else if hostPort, ok := spec["hostPort"].(string); ok {
					spec["host"], spec["port"], _ = strings.Cut(hostPort, ":")
					delete(spec, "hostPort")
				}
			}
			if change != nil {
				change(obj, obj["metadata"].(map[string]any))
			}
		}
		return r.Success(r.Request.Objects...)
	}
}

// calls returns the number of calls of the webhook since the last time, and the number of objects
// in them.
func (c *converting) calls() (calls, objects int) {
	for _, review := range c.hook.Calls() {
		calls++
		objects += len(review.Request.Objects)
	}
	return calls, objects
}

func hostPort(name, value string) string {
	return foo(name, `,"spec":{"hostPort":"`+value+`"}`)
}

// TestConversion also counts calls: one to read, one to store, one to show the stored object, and
// two (before and after) for each other version in managedFields.
func TestConversion(t *testing.T) {
	c := startConverting(t)
	const merge, apply = mergePatch, applyPatch
	for _, step := range []struct {
		what, method, path, body, contentType string
		code                                  int
		holds                                 []string // parts of the response; with ! absent ones
		calls, objects                        int
	}{
		{"create in the other version", "POST", foos, hostPort("a", "h:1"), "", 201, []string{`"apiVersion":"example.com/v1"`, `"hostPort":"h:1"`, `!"host":`, `!weight`}, 2, 2},
		{"read in the stored version", "GET", foos2 + "/a", "", "", 200, []string{`"apiVersion":"example.com/v2"`, `"host":"h"`, `"port":"1"`, `"weight":5`, "!hostPort"}, 0, 0},
		{"read in the other", "GET", foos + "/a", "", "", 200, []string{`"hostPort":"h:1"`, `"resourceVersion":"`}, 1, 1},
		{"create in the stored version", "POST", foos2, `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"b","labels":{"l":"b"}},"spec":{"host":"i","port":"2","replicas":3}}`, "", 201, []string{`"host":"i"`}, 0, 0},
		{"dry run", "POST", foos + "?dryRun=All", hostPort("dry", "h:1"), "", 201, []string{`"hostPort":"h:1"`, `!"host":`}, 2, 2},
		{"it was not stored", "GET", foos2 + "/dry", "", "", 404, nil, 0, 0},
		{"list", "GET", foos, "", "", 200, []string{`"hostPort":"h:1"`, `"hostPort":"i:2"`, `!"host":`}, 1, 2},
		{"list the stored version", "GET", foos2, "", "", 200, []string{`"host":"h"`, `"host":"i"`}, 0, 0},
		{"a page", "GET", foos + "?limit=1", "", "", 200, []string{`"hostPort":"h:1"`, `!"hostPort":"i:2"`, `"remainingItemCount":1`}, 1, 1},
		{"by label", "GET", foos + "?labelSelector=l", "", "", 200, []string{`"hostPort":"i:2"`, `!"hostPort":"h:1"`}, 1, 2},
		{"by field", "GET", foos + "?fieldSelector=spec.hostPort%3Dh:1", "", "", 200, []string{`"hostPort":"h:1"`, `!"hostPort":"i:2"`}, 1, 2},
		{"by field, a page", "GET", foos + "?limit=1&fieldSelector=spec.hostPort%3Di:2", "", "", 200, []string{`"hostPort":"i:2"`, `"continue":""`}, 2, 2},
		{"by name", "GET", foos + "?fieldSelector=metadata.name%3Da", "", "", 200, []string{`"hostPort":"h:1"`, `!"hostPort":"i:2"`}, 1, 1},
		{"by a field of the other version", "GET", foos + "?fieldSelector=spec.host%3Dh", "", "", 400, []string{"field label not supported: spec.host"}, 0, 0},
		{"by field in the stored version", "GET", foos2 + "?fieldSelector=spec.host%3Dh", "", "", 200, []string{`"host":"h"`, `!"host":"i"`}, 0, 0},
		{"patch", "PATCH", foos + "/a?fieldManager=m", `{"spec":{"hostPort":"h:7"}}`, merge, 200, []string{`"hostPort":"h:7"`, `"generation":2`}, 3, 3},
		{"patch that changes nothing", "PATCH", foos + "/a?fieldManager=m", `{"spec":{"hostPort":"h:7"}}`, merge, 200, []string{`"hostPort":"h:7"`, `"generation":2`}, 2, 2},
		{"update", "PUT", foos + "/b", strings.Replace(hostPort("b", "i:3"), `"name"`, `"resourceVersion":"1","name"`, 1), "", 409, nil, 3, 3},
		{"status", "PATCH", foos + "/a/status", `{"status":{"phase":"Up"},"spec":{"hostPort":"x:x"}}`, merge, 200, []string{`"hostPort":"h:7"`, `"phase":"Up"`}, 3, 3},
		{"scale", "GET", foos + "/b/scale", "", "", 200, []string{`"kind":"Scale"`, `"replicas":3`}, 1, 1},
		{"write the scale", "PATCH", foos + "/b/scale", `{"spec":{"replicas":4}}`, merge, 200, []string{`"replicas":4`}, 3, 3},
		{"apply", "PATCH", foos + "/new?fieldManager=one", hostPort("new", "n:1"), apply, 201, []string{`"hostPort":"n:1"`}, 2, 2},
		{"apply in the stored version, by another manager", "PATCH", foos2 + "/new?fieldManager=two", `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"new"},"spec":{"host":"mine"}}`, apply, 409,
			[]string{`conflict with \"one\": .spec.hostPort`}, 2, 2},
		{"by force", "PATCH", foos2 + "/new?fieldManager=two&force=true", `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"new"},"spec":{"host":"mine"}}`, apply, 200, []string{`"host":"mine"`}, 2, 2},
		{"delete, dry run", "DELETE", foos + "/new?dryRun=All", "", "", 200, []string{`"status":"Success"`}, 1, 1},
		{"delete", "DELETE", foos + "/new", "", "", 200, []string{`"status":"Success"`}, 1, 1},
		{"delete what waits for a finalizer", "PATCH", foos2 + "/b", `{"metadata":{"finalizers":["example.com/f"]}}`, merge, 200, nil, 2, 2},
		{"the answer is converted", "DELETE", foos + "/b", "", "", 200, []string{`"hostPort":"i:2"`, `"deletionTimestamp"`}, 3, 3},
		{"and again", "DELETE", foos + "/b", "", "", 200, []string{`"hostPort":"i:2"`}, 2, 2},
		{"it goes with its finalizer", "PATCH", foos + "/b", `{"metadata":{"finalizers":null}}`, merge, 200, []string{`"hostPort":"i:2"`}, 5, 5},
		{"it is gone", "GET", foos + "/b", "", "", 404, nil, 0, 0},
		{"delete by field", "DELETE", foos + "?fieldSelector=spec.hostPort%3Dnone", "", "", 200, []string{`"items":[]`}, 1, 1},
		{"delete all", "DELETE", foos, "", "", 200, []string{`"hostPort":"h:7"`}, 2, 2},
		{"an empty list", "GET", foos, "", "", 200, []string{`"items":[]`}, 0, 0},
	} {
		c.calls()
		text := c.must(step.code, step.method, step.path, step.body, "Content-Type", step.contentType)
		for _, part := range step.holds {
			absent := strings.HasPrefix(part, "!")
			// managedFields have fields of all versions.
			text := cutManaged(text)
			if strings.Contains(text, strings.TrimPrefix(part, "!")) == absent {
				t.Errorf("%s: want %s in %s", step.what, part, text)
			}
		}
		if calls, objects := c.calls(); calls != step.calls || objects != step.objects {
			t.Errorf("%s: %d calls for %d objects, want %d for %d", step.what, calls, objects, step.calls, step.objects)
		}
	}
}

// TestOwnersAcrossVersions compares with kube-apiserver 1.37: an apply requires that objects fit
// the versions of other managers, and an update of an object that does not fit is not recorded.
func TestOwnersAcrossVersions(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	version := func(name, storage, property string) string {
		return `{"name":"` + name + `","served":true,"storage":` + storage + `,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"both":{"type":"string"},` + property + `}}}}}}`
	}
	r.must(201, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[`+
		version("v1", "false", `"old":{"type":"string"}`)+","+version("v2", "true", `"new":{"type":"string"},"weight":{"type":"integer","default":5}`)+`]}}`)
	r.established()
	v2 := func(name, spec string) string {
		return `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
	}
	const first = `"managedFields":[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:both":{},"f:old":{}}},"manager":"one","operation":"Update"`
	for _, step := range []struct {
		method, path, body, contentType string
		code                            int
		want                            string
	}{
		{"POST", foos + "?fieldManager=one", foo("a", `,"spec":{"old":"o","both":"b"}`), "", 201, first},
		{"PATCH", foos2 + "/a?fieldManager=two&force=true", v2("a", `{"new":"n"}`), applyPatch, 500, `"message":".spec.weight: field not declared in schema","code":500`},
		{"PATCH", foos2 + "/a?fieldManager=three", `{"spec":{"new":"n"}}`, mergePatch, 200, first},
		{"PATCH", foos + "/a?fieldManager=four", `{"spec":{"both":"c"}}`, mergePatch, 200, `{"f:spec":{"f:both":{}}},"manager":"four"`},
		{"PATCH", foos2 + "/b?fieldManager=five", v2("b", `{"new":"n"}`), applyPatch, 201, `"manager":"five"`},
		{"PATCH", foos + "/b?fieldManager=six", foo("b", `,"spec":{"both":"b"}`), applyPatch, 200, `"manager":"six"`},
		{"PATCH", foos2 + "/b?fieldManager=five", v2("b", `{"new":"m"}`), applyPatch, 500, `"message":".spec.weight: field not declared in schema","code":500`},
	} {
		text := r.must(step.code, step.method, step.path, step.body, "Content-Type", step.contentType)
		if !strings.Contains(text, step.want) {
			t.Errorf("%s %s:\n got %s\nwant %s", step.method, step.path, text, step.want)
		}
	}
}

// cutManaged removes all managedFields.
func cutManaged(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	var cut func(any)
	cut = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "managedFields")
			for _, member := range v {
				cut(member)
			}
		case []any:
			for _, item := range v {
				cut(item)
			}
		}
	}
	cut(v)
	data, _ := json.Marshal(v)
	return string(data)
}

// TestConvertedForms checks that tables and partial metadata are in the requested version.
func TestConvertedForms(t *testing.T) {
	c := startConverting(t)
	c.must(201, "POST", foos, hostPort("a", "h:1"))
	c.hook.Answer(hostPorts(func(_, metadata map[string]any) { metadata["labels"] = map[string]any{"added": "yes"} }))
	for _, row := range []struct{ path, as, want string }{
		{foos, "Table", `"cells":["a","h:1"]`},
		{foos + "/a", "Table", `"cells":["a","h:1"]`},
		{foos2, "Table", `"cells":["a","1"]`},
		{foos, "PartialObjectMetadataList", `"labels":{"added":"yes"}`},
		{foos + "/a", "PartialObjectMetadata", `"labels":{"added":"yes"}`},
		{foos + "?labelSelector=added", "PartialObjectMetadataList", `"labels":{"added":"yes"}`},
		{foos2 + "?labelSelector=added", "PartialObjectMetadataList", `"items":[]`},
	} {
		text := c.must(200, "GET", row.path, "", "Accept", "application/json;as="+row.as+";g=meta.k8s.io;v=v1")
		if !strings.Contains(text, row.want) {
			t.Errorf("%s as %s: %s", row.path, row.as, text)
		}
	}
}

// TestConversionErrors compares errors with those of kube-apiserver 1.37.
func TestConversionErrors(t *testing.T) {
	c := startConverting(t)
	c.must(201, "POST", foos2, `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"b"},"spec":{"host":"h","port":"1"}}`)
	c.must(201, "POST", foos, hostPort("a", "h:1"))
	c.hook.Answer(func(r *hooktest.Review) any {
		return map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "response": map[string]any{
			"uid": r.Request.UID, "result": map[string]any{"status": "Failure", "message": "I do not want to"}}}
	})
	const (
		corrupt = "StorageError: corrupt object, Code: 7, Key: %s/example.com/foos/default/%s, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=REV: conversion webhook for example.com/v2, Kind=Foo failed: I do not want to"
		plain   = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"conversion webhook for example.com/%s, Kind=Foo failed: I do not want to","code":500}`
	)
	internal := func(name string) string {
		text := fmt.Sprintf(corrupt, "", name)
		return `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: ` + text + `","reason":"InternalError","details":{"causes":[{"message":"` + text + `"}]},"code":500}`
	}
	listed := fmt.Sprintf(corrupt, "/registry", "a")
	list := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"failed to read one or more foos.example.com from the storage: ` + listed +
		`","reason":"StorageReadError","details":{"name":"list","group":"example.com","kind":"foos","causes":[{"reason":"UnexpectedServerResponse","message":"` + listed + `","field":"/registry/example.com/foos/default/a"}]},"code":500}`
	watched := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"storage is (re)initializing: failed to list \u003cunspecified\u003e: failed to read one or more foos.example.com from the storage: ` + listed +
		`","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}`
	for _, row := range []struct {
		method, path, body, contentType string
		code                            int
		want                            string
	}{
		{"GET", foos + "/b", "", "", 500, internal("b")},
		{"GET", foos + "/missing", "", "", 404, ""},
		{"GET", foos, "", "", 500, list},
		{"GET", foos + "?limit=1", "", "", 500, list},
		{"GET", foos + "?watch=1", "", "", 429, watched},
		{"GET", foos + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "", "", 429, watched},
		{"POST", foos, hostPort("x", "h:1"), "", 500, fmt.Sprintf(plain, "v1")},
		{"GET", foos2 + "/x", "", "", 404, ""},
		{"PATCH", foos + "/new?fieldManager=z", hostPort("new", "h:7"), applyPatch, 500, fmt.Sprintf(plain, "v1")},
		{"PATCH", foos2 + "/a?fieldManager=z", `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"a"},"spec":{"replicas":7}}`, applyPatch, 500, fmt.Sprintf(plain, "v2")},
		{"DELETE", foos + "/a", "", "", 500, internal("a")},
		{"DELETE", foos, "", "", 500, list},
		// kube-apiserver has these objects in a cache, converted, and so fails at the first step of
		// the write.
		{"PATCH", foos + "/a", `{"spec":{"hostPort":"h:7"}}`, mergePatch, 500, internal("a")},
		{"PATCH", foos + "/a/status", `{"status":{"a":"b"}}`, mergePatch, 500, internal("a")},
		{"PATCH", foos + "/a/scale", `{"spec":{"replicas":1}}`, mergePatch, 500, internal("a")},
		{"PUT", foos + "/a", hostPort("a", "h:7"), "", 500, internal("a")},
		// The stored version needs no conversion.
		{"GET", foos2 + "/a", "", "", 200, ""},
		{"PATCH", foos2 + "/b", `{"spec":{"host":"i"}}`, mergePatch, 200, ""},
		{"DELETE", foos2 + "/b", "", "", 200, ""},
	} {
		code, text := c.do(row.method, row.path, row.body, "Content-Type", row.contentType)
		if code != row.code || row.want != "" && anyRevision.ReplaceAllString(strings.TrimSpace(text), "revision=REV") != row.want {
			t.Errorf("%s %s: %d\n got %s\nwant %s", row.method, row.path, code, text, row.want)
		}
	}
	// An error response of the webhook is not the client's response.
	for _, code := range []int{404, 409, 500} {
		c.hook.Answer(func(*hooktest.Review) any { return code })
		if text := c.must(500, "POST", foos, hostPort("x", "h:1")); !strings.Contains(text, `"message":"conversion webhook for example.com/v1, Kind=Foo failed: `) {
			t.Error(text)
		}
	}
	c.hook.Stop()
	c.wait("a refused connection", func() bool {
		text := c.must(500, "GET", foos+"/a", "")
		return strings.Contains(text, "connect: connection refused") && strings.Contains(text, "/convert?timeout=30s")
	})
	c.must(200, "PATCH", foosCRD, `{"spec":{"conversion":{"webhook":{"clientConfig":{"url":null,"service":{"namespace":"default","name":"svc","path":"/x"}}}}}}`, "Content-Type", mergePatch)
	c.wait("the new definition", func() bool { return strings.Contains(c.must(500, "GET", foos+"/a", ""), "svc.default") })
	if text := c.must(500, "GET", foos+"/a", ""); !strings.Contains(text, `Post \"https://svc.default.svc:443/x?timeout=30s\": service \"svc\" not found`) {
		t.Error(text)
	}
}

// TestLies checks that invalid responses of a webhook are rejected, and change nothing.
func TestLies(t *testing.T) {
	c := startConverting(t)
	for _, name := range []string{"a", "b"} {
		c.must(201, "POST", foos2, `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"`+name+`"},"spec":{"host":"h","port":"1"}}`)
	}
	before := c.must(200, "GET", foos2, "")
	response := func(change func(response map[string]any)) func(*hooktest.Review) any {
		return func(r *hooktest.Review) any {
			review := hostPorts(nil)(r).(map[string]any)
			change(review["response"].(map[string]any))
			return review
		}
	}
	changed := func(key string, value any) func(*hooktest.Review) any {
		return hostPorts(func(_, metadata map[string]any) { metadata[key] = value })
	}
	for _, lie := range []struct {
		name, want string
		answer     func(*hooktest.Review) any
	}{
		{"another name", "must have the same name: a != c", changed("name", "c")},
		{"another namespace", "must have the same namespace: default != other", changed("namespace", "other")},
		{"another uid", "must have the same UID: ", changed("uid", "x")},
		{"a bad label", "metadata.labels: Invalid value", changed("labels", map[string]any{"a b": "c"})},
		{"another kind", "invalid kind (expected Foo, received Bar)", hostPorts(func(obj, _ map[string]any) { obj["kind"] = "Bar" })},
		{"another version", "invalid groupVersion (expected example.com/v1, received example.com/v2)", hostPorts(func(obj, _ map[string]any) { obj["apiVersion"] = "example.com/v2" })},
		{"lost objects", "returned 0 objects, expected ", response(func(r map[string]any) { r["convertedObjects"] = nil })},
		{"another request", "expected response.uid=", response(func(r map[string]any) { r["uid"] = "x" })},
		{"failure", "I do not want to", response(func(r map[string]any) {
			r["result"] = map[string]any{"status": "Failure", "message": "I do not want to"}
		})},
		{"no JSON", "json parse error", func(*hooktest.Review) any { return []byte("{hello") }},
		{"nothing", "0-length response with status code: 200", func(*hooktest.Review) any { return []byte{} }},
		{"an error", "an error on the server (\\\"no\\\") has prevented the request from succeeding", func(*hooktest.Review) any { return 500 }},
	} {
		c.hook.Answer(lie.answer)
		for _, path := range []string{foos + "/a", foos} {
			if text := c.must(500, "GET", path, ""); !strings.Contains(text, lie.want) {
				t.Errorf("%s: GET %s: %s", lie.name, path, text)
			}
		}
		c.must(500, "POST", foos, hostPort("new", "h:1"))
		c.must(500, "PATCH", foos+"/a", `{"spec":{"hostPort":"x:9"}}`, "Content-Type", mergePatch)
		c.must(500, "DELETE", foos+"/a", "")
	}
	// The resourceVersion of the list, behind the items, also counts writes of the server itself.
	items := func(list string) string {
		items, _, _ := strings.Cut(cutManaged(list), `,"kind":"FooList"`)
		return items
	}
	if after := c.must(200, "GET", foos2, ""); items(after) != items(before) {
		t.Errorf("before: %s\nafter: %s", before, after)
	}

	metrics := c.must(200, "GET", "/metrics", "")
	for _, want := range []string{
		`apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_call_failure",result="failure"}`,
		`apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_malformed_response_failure",result="failure"}`,
		`apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_partial_response_failure",result="failure"}`,
		`apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_invalid_converted_object_failure",result="failure"}`,
		`apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="foos.example.com",from_version="v2",succeeded="false",to_version="v1"}`,
		`apiserver_conversion_webhook_duration_seconds_bucket{failure_type="conversion_webhook_call_failure",result="failure",le="60"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}

	// Metadata except labels and annotations is restored without an error.
	c.hook.Answer(hostPorts(func(_, metadata map[string]any) {
		metadata["finalizers"], metadata["generation"], metadata["ownerReferences"] = []any{"x/y"}, 99, []any{"nonsense"}
		delete(metadata, "creationTimestamp")
	}))
	text := c.must(200, "GET", foos+"/a", "")
	if strings.Contains(text, "x/y") || strings.Contains(text, "nonsense") || !strings.Contains(text, "creationTimestamp") || generationOf(text) != 1 {
		t.Error(text)
	}
}

// TestSlowWebhook checks that a call ends with its request, and with the server.
func TestSlowWebhook(t *testing.T) {
	c := startConverting(t)
	c.must(201, "POST", foos2, `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"a"},"spec":{"host":"h","port":"1"}}`)
	asked, gaveUp := make(chan struct{}), make(chan struct{})
	c.hook.Answer(func(r *hooktest.Review) any {
		asked <- struct{}{}
		<-r.GaveUp
		gaveUp <- struct{}{}
		return 500
	})
	get := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://kapok"+foos+"/a", nil)
		if err != nil {
			return err
		}
		resp, err := c.client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return errors.New(resp.Status)
	}
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- get(ctx) }()
	<-asked
	cancel()
	<-gaveUp
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	go func() { ended <- get(t.Context()) }()
	<-asked
	go func() {
		hurry, cancel := context.WithCancel(context.Background())
		cancel()
		c.server.Shutdown(hurry)
	}()
	<-gaveUp
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	c.server.Wait()
}

// TestStorageSwitch checks that objects stay in their storage version until they are written, and
// that a version can be removed only when no object is stored in it.
func TestStorageSwitch(t *testing.T) {
	c := startConverting(t)
	c.must(201, "POST", foos2, `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"a"},"spec":{"host":"h","port":"1"}}`)
	c.must(201, "POST", foos2, `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"b"},"spec":{"host":"i","port":"2"}}`)
	switchTo := func(patch string) {
		t.Helper()
		generation := generationOf(c.must(200, "GET", foosCRD, ""))
		if text := c.must(200, "PATCH", foosCRD, patch, "Content-Type", "application/json-patch+json"); generationOf(text) == generation {
			t.Fatal(text)
		}
	}
	switchTo(`[{"op":"replace","path":"/spec/versions/0/storage","value":true},{"op":"replace","path":"/spec/versions/1/storage","value":false}]`)
	if text := c.must(200, "GET", foosCRD, ""); !strings.Contains(text, `"storedVersions":["v2","v1"]`) {
		t.Error(text)
	}
	needs := func(what, path string, want int) { // number of objects that a list has to convert
		t.Helper()
		c.wait(what, func() bool {
			c.calls()
			c.must(200, "GET", path, "")
			_, objects := c.calls()
			return objects == want
		})
	}
	// Both are stored as v2. The new definition is in effect when a write without changes stores an
	// object as v1.
	c.wait("a write to v1", func() bool {
		c.must(200, "PATCH", foos+"/a", `{}`, "Content-Type", mergePatch)
		c.calls()
		c.must(200, "GET", foos+"/a", "")
		calls, _ := c.calls()
		return calls == 0
	})
	needs("one in v2 left", foos, 1)
	needs("one in v1", foos2, 1)
	if text := c.must(200, "GET", foos, ""); !strings.Contains(text, `"hostPort":"h:1"`) || !strings.Contains(text, `"hostPort":"i:2"`) {
		t.Error(text)
	}

	remove := `[{"op":"remove","path":"/spec/versions/1"}]`
	if text := c.must(422, "PATCH", foosCRD, remove, "Content-Type", "application/json-patch+json"); !strings.Contains(text, `must appear in spec.versions`) && !strings.Contains(text, "missing from spec.versions") {
		t.Error(text)
	}
	// This version is no longer served, but objects are stored in it.
	switchTo(`[{"op":"replace","path":"/spec/versions/1/served","value":false}]`)
	c.wait("v2 to go", func() bool { code, _ := c.do("GET", foos2, ""); return code == 404 })
	needs("one in v2 left", foos, 1)
	c.must(200, "PATCH", foos+"/b", `{}`, "Content-Type", mergePatch)
	needs("none in v2 left", foos, 0)
	c.must(200, "PATCH", foosCRD+"/status", `{"status":{"storedVersions":["v1"]}}`, "Content-Type", mergePatch)
	switchTo(remove)
	if text := c.must(200, "GET", foos, ""); !strings.Contains(text, `"hostPort":"h:1"`) || !strings.Contains(text, `"hostPort":"i:2"`) {
		t.Error(text)
	}
}

func generationOf(text string) int64 {
	var v struct{ Metadata struct{ Generation int64 } }
	_ = json.Unmarshal([]byte(text), &v)
	return v.Metadata.Generation
}

// TestConversionChanges checks that each request during a change of the webhook is served with the
// old one or the new one.
func TestConversionChanges(t *testing.T) {
	c := startConverting(t)
	mark := func(who string) func(*hooktest.Review) any {
		return hostPorts(func(obj, metadata map[string]any) {
			metadata["annotations"] = map[string]any{"by": who}
		})
	}
	c.hook.Answer(mark("one"))
	other := hooktest.Start(t, mark("two"))
	for n := range 20 {
		c.must(201, "POST", foos2, fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"f%d"},"spec":{"host":"h","port":"1"}}`, n))
	}
	var clients sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				code, text := c.do("GET", foos, "")
				one, two := strings.Count(text, `"by":"one"`), strings.Count(text, `"by":"two"`)
				if code != 200 || one+two != 20 || one > 0 && two > 0 {
					t.Errorf("%d, %d by one and %d by two", code, one, two)
					return
				}
			}
		})
	}
	for n := range 20 {
		hook := []*hooktest.Hook{other, c.hook}[n%2]
		c.must(200, "PATCH", foosCRD, fmt.Sprintf(`{"spec":{"conversion":{"webhook":{"clientConfig":{"url":%q,"caBundle":%q}}}}}`, hook.URL, base64.StdEncoding.EncodeToString(hook.CA)),
			"Content-Type", mergePatch)
	}
	c.wait("the last one", func() bool { return strings.Contains(c.must(200, "GET", foos+"/f0", ""), `"by":"one"`) })
	close(done)
	clients.Wait()
}

// TestConversionV1beta1 checks the older form of a definition, which configures its webhook in
// another field.
func TestConversionV1beta1(t *testing.T) {
	c := &converting{startRaw(t, kapok.Options{V1beta1CRDs: true}), hooktest.Start(t, hostPorts(nil))}
	c.must(201, "POST", "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},"spec":{
		"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"preserveUnknownFields":false,
		"validation":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
		"conversion":{"strategy":"Webhook","conversionReviewVersions":["v1beta1"],"webhookClientConfig":{"url":%q,"caBundle":%q}},
		"versions":[{"name":"v2","served":true,"storage":true},{"name":"v1","served":true,"storage":false}]}}`, c.hook.URL, base64.StdEncoding.EncodeToString(c.hook.CA)))
	c.established()
	c.must(201, "POST", foos, hostPort("a", "h:1"))
	if text := c.must(200, "GET", foos2+"/a", ""); !strings.Contains(text, `"host":"h"`) {
		t.Error(text)
	}
	for _, call := range c.hook.Calls() {
		if call.APIVersion != "apiextensions.k8s.io/v1beta1" {
			t.Errorf("request in %s", call.APIVersion)
		}
	}
}

func BenchmarkConvertedList(b *testing.B) {
	for _, objects := range []int{1, 1000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			c := startConverting(b)
			for n := range objects {
				c.must(201, "POST", foos2, fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"f%d","annotations":{"padding":%q}},"spec":{"host":"h","port":"1"}}`, n, strings.Repeat("x", 1000)))
			}
			var inside int64
			b.ResetTimer()
			for b.Loop() {
				text := c.must(200, "GET", foos, "")
				inside += int64(len(text))
			}
			b.SetBytes(inside / int64(b.N))
		})
	}
}
