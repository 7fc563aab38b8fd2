package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := parse("# a comment\n\nPOST /a\n{\n# and one in a body\n}\n\nDELETE /b\n\nAPPLY /c\nx\n")
	want := []write{
		{line: 3, method: "POST", path: "/a", mediaType: "application/json", body: "{\n}\n"},
		{line: 8, method: "DELETE", path: "/b", mediaType: "application/json"},
		{line: 10, method: "PATCH", path: "/c", mediaType: "application/apply-patch+yaml", body: "x\n"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, text := range []string{"POST", "POST a", "GET /a", "post /a"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%s: %+v, want an error", text, got)
		}
	}
}

// TestWrites: the file that all versions get can be read.
func TestWrites(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "writes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if writes, err := parse(string(text)); err != nil || len(writes) < 50 {
		t.Errorf("%d requests, %v", len(writes), err)
	}
}
