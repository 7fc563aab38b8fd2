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
