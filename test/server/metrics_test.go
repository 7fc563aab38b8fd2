package server_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/kapok-dev/kapok"
)

// TestJournalMetrics checks that there are metrics of fsyncs and of writes.
func TestJournalMetrics(t *testing.T) {
	r := startRaw(t, kapok.Options{DataDir: t.TempDir(), KeepGarbage: true})
	value := func(name string) int {
		t.Helper()
		found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(r.must(200, "GET", "/metrics", ""))
		if found == nil {
			t.Fatalf("metric %s does not exist", name)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	commits, entries, revision := value("kapok_journal_commits_total"), value("kapok_journal_entries_total"), value("kapok_revision")
	const writes = 5
	for range writes {
		r.must(201, "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"x-"}}`)
	}
	if n := value("kapok_journal_commits_total") - commits; n != writes {
		t.Errorf("%d commits of %d writes, one after another", n, writes)
	}
	if n := value("kapok_journal_entries_total") - entries; n != writes {
		t.Errorf("%d entries of %d writes", n, writes)
	}
	if n := value("kapok_revision") - revision; n != writes {
		t.Errorf("%d revisions of %d writes", n, writes)
	}
	if value("kapok_journal_healthy") != 1 || value("kapok_journal_failures_total") != 0 || value("kapok_journal_syncs_total") == 0 {
		t.Error("the journal is not healthy")
	}
}

// TestKindSizes checks that there are metrics of the objects of each kind, and none of kinds that
// are not stored.
func TestKindSizes(t *testing.T) {
	r := startRaw(t, kapok.Options{KeepGarbage: true})
	r.must(201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"a"}}`)
	r.must(201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"b"}}`)
	text := r.must(200, "GET", "/metrics", "")
	for _, pattern := range []string{
		`apiserver_resource_objects{group="",resource="secrets"} 2`,
		`apiserver_resource_objects{group="apps",resource="deployments"} 0`,
		`apiserver_resource_size_estimate_bytes{group="",resource="secrets"} [1-9]\d*`,
		`apiserver_storage_objects{resource="secrets"} 2`,
		`apiserver_storage_objects{resource="deployments.apps"} 0`,
	} {
		if !regexp.MustCompile(`(?m)^` + pattern + `$`).MatchString(text) {
			t.Errorf("there is no metric %s", pattern)
		}
	}
	if regexp.MustCompile(`(?m)^apiserver_resource_objects{.*resource="\w*reviews"`).MatchString(text) {
		t.Error("a kind is counted that is not stored")
	}
}
