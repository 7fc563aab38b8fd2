package crd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"
)

// marked returns edition n of a definition. It requires mark n, which is also the default, keeps
// the field named after n and no other, and shows that field in its only column.
func marked(n int) string {
	return fmt.Sprintf(`{"spec":{"versions":[{"name":"v1","served":true,"storage":true,
		"additionalPrinterColumns":[{"name":"Edition%[1]d","type":"string","jsonPath":".spec.only%[1]d"}],
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","default":{},"properties":{
			"mark":{"type":"integer","default":%[1]d,"minimum":%[1]d,"maximum":%[1]d},
			"only%[1]d":{"type":"string"}}}}}}}]}}`, n)
}

const editions = 15

// everyField returns the fields that any edition may keep.
func everyField() string {
	fields := map[string]string{}
	for n := range editions {
		fields[fmt.Sprint("only", n)] = "x"
	}
	text, _ := json.Marshal(fields)
	return string(text[1 : len(text)-1])
}

// edition returns the edition that wrote an object, and whether the same one served it: only that
// edition keeps the field named after it.
func edition(obj map[string]any) (n int, current bool, err error) {
	spec, _ := obj["spec"].(map[string]any)
	mark, ok := spec["mark"].(float64)
	if !ok {
		return 0, false, fmt.Errorf("no mark in %v", spec)
	}
	rest := maps.Clone(spec)
	delete(rest, "mark")
	own := fmt.Sprint("only", int(mark))
	_, current = rest[own]
	delete(rest, own)
	if len(rest) > 0 {
		return 0, false, fmt.Errorf("fields of several editions: %v", spec)
	}
	return int(mark), current, nil
}

// TestChangeUnderLoad changes a definition many times while clients write, read, list and watch.
// One edition must serve each response, including whole lists, and no watch may miss or repeat an
// event, although each edition ends the open watches.
func TestChangeUnderLoad(t *testing.T) {
	seed := seeds.Of(t)
	a := newAPI(t)
	path := a.define(kind("marks", "kind: Mark", ""))
	a.patch(200, path, marked(0))
	const marks = "/apis/example.com/v1/namespaces/default/marks"
	a.until("the first edition", "/apis/example.com/v1/namespaces/default/marks", func(_ int, table map[string]any) bool {
		return strings.Contains(fmt.Sprint(table["columnDefinitions"]), "Edition0")
	}, "Accept", asColumns)
	begin := at(a.must(200, "GET", marks, ""), "metadata", "resourceVersion").(string)

	var (
		writers, others sync.WaitGroup
		done            atomic.Bool
		made            sync.Map // names
		accepted        [editions]atomic.Int64
	)
	for w := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		writers.Go(func() {
			for i := 0; !done.Load(); i++ {
				name := fmt.Sprintf("w%d-%d", w, i)
				a.writeMark(marks, name, random, &accepted)
				if code, _ := a.do("GET", marks+"/"+name, ""); code == 200 {
					made.Store(name, true)
				}
				if i >= 100 { // lists stay short, however long an edition takes
					a.do("DELETE", fmt.Sprintf("%s/w%d-%d", marks, w, i-100), "")
				}
			}
		})
	}
	for range 2 {
		others.Go(func() {
			for !done.Load() {
				a.checkList(marks)
				a.checkTable(marks)
			}
		})
	}
	seen := map[string]int{} // number of added events of each object
	watching := make(chan int)
	go func() { watching <- a.followMarks(marks, begin, seen, "last") }()

	for n := 1; n < editions; n++ {
		a.patch(200, path, marked(n))
		a.until("the next edition", marks, func(_ int, table map[string]any) bool {
			return strings.Contains(fmt.Sprint(table["columnDefinitions"]), fmt.Sprint("Edition", n))
		}, "Accept", asColumns)
		before := accepted[n].Load()
		for accepted[n].Load() == before && !t.Failed() { // wait for writes under this edition
			a.checkList(marks)
		}
	}
	done.Store(true)
	writers.Wait()
	others.Wait()
	a.must(201, "POST", marks, `{apiVersion: example.com/v1, kind: Mark, metadata: {name: last}}`)
	made.Store("last", true)
	ends := <-watching
	if ends < editions/2 { // one watch can span several editions
		t.Errorf("the watch ended %d times for %d editions", ends, editions-1)
	}
	count := 0
	for name := range made.Range {
		if count++; seen[name.(string)] != 1 {
			t.Errorf("%s was added %d times", name, seen[name.(string)])
		}
	}
	if len(seen) != count {
		t.Errorf("%d objects were added, %d created", len(seen), count)
	}
	t.Logf("%d objects, %d watches", count, ends+1)
}

// writeMark creates an object and patches it; one edition must serve each response.
func (a *api) writeMark(marks, name string, random *rand.Rand, accepted *[editions]atomic.Int64) {
	mark := ""
	if random.IntN(3) == 0 {
		mark = fmt.Sprintf(`"mark":%d,`, random.IntN(editions))
	}
	code, obj := a.do("POST", marks, fmt.Sprintf(
		`{"apiVersion":"example.com/v1","kind":"Mark","metadata":{"name":%q},"spec":{%s%s}}`, name, mark, everyField()))
	switch code {
	case 201:
		n, current, err := edition(obj)
		if err != nil || !current {
			a.Errorf("created: %v, current %v: %v", err, current, obj["spec"])
			return
		}
		accepted[n].Add(1)
	case 422:
		// All editions but one reject a mark.
		if message := fmt.Sprint(obj["message"]); mark == "" || strings.Count(message, "spec.mark: Invalid value") != 1 {
			a.Errorf("refused: %s", message)
		}
		return
	default:
		a.Errorf("create: %d %v", code, obj["message"])
		return
	}
	code, obj = a.do("PATCH", marks+"/"+name, `{"spec":{"mark":null,`+everyField()+`}}`, "Content-Type", asMerge)
	if code != 200 {
		a.Errorf("patch: %d %v", code, obj["message"])
	} else if _, current, err := edition(obj); err != nil || !current {
		a.Errorf("patched: %v, current %v: %v", err, current, obj["spec"])
	}
}

// checkList reads a list; one edition must serve all of it.
func (a *api) checkList(marks string) {
	code, list := a.do("GET", marks, "")
	if code != 200 {
		a.Errorf("list: %d %v", code, list["message"])
		return
	}
	items, _ := list["items"].([]any)
	by := -1
	old := map[int]bool{}
	for _, item := range items {
		n, current, err := edition(item.(map[string]any))
		switch {
		case err != nil:
			a.Errorf("item: %v", err)
		case current && by >= 0 && by != n:
			a.Errorf("a list by editions %d and %d", by, n)
		case current:
			by = n
		default:
			old[n] = true
		}
	}
	if old[by] {
		a.Errorf("a list by edition %d, and by another", by)
	}
}

// checkTable reads a table; the edition that made the columns must make the cells.
func (a *api) checkTable(marks string) {
	code, table := a.do("GET", marks+"?includeObject=Object", "", "Accept", asColumns)
	if code != 200 {
		a.Errorf("table: %d %v", code, table["message"])
		return
	}
	columns := table["columnDefinitions"].([]any)
	name := columns[1].(map[string]any)["name"].(string)
	rows, _ := table["rows"].([]any)
	for _, row := range rows {
		row := row.(map[string]any)
		n, current, err := edition(row["object"].(map[string]any))
		cell := row["cells"].([]any)[1]
		if shown := cell != nil; err != nil || shown != current || shown && name != fmt.Sprint("Edition", n) {
			a.Errorf("column %s shows %v of %v: %v", name, cell, at(row, "object", "spec"), err)
		}
	}
}

// followMarks watches until it sees the object named last, and reconnects whenever a watch ends. It
// returns the number of watches that ended.
func (a *api) followMarks(marks, from string, seen map[string]int, last string) (ends int) {
	for ; ; ends++ {
		f := a.follow(marks + "?watch=true&resourceVersion=" + from)
		for {
			kind, obj := f.next()
			if kind == "" {
				break
			}
			if !slices.Contains([]string{"ADDED", "MODIFIED", "DELETED"}, kind) {
				a.Errorf("event %s %v", kind, obj)
				return ends
			}
			if _, _, err := edition(obj); err != nil {
				a.Errorf("event: %v", err)
			}
			from = at(obj, "metadata", "resourceVersion").(string)
			name := at(obj, "metadata", "name").(string)
			if kind == "ADDED" {
				seen[name]++
			}
			if name == last {
				f.resp.Body.Close()
				return ends
			}
		}
	}
}
