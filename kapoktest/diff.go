package kapoktest

import (
	"slices"
	"strings"
)

const (
	around = 3    // so many lines that are the same are shown before and after each change
	far    = 2000 // more lines to take out and put in than that are not looked for one by one
)

// lineDiff shows how the lines of a YAML text have changed: runs of removed and added lines, with
// context, under headings with their path in the object:
//
//	@@ spec.containers[app].env[COLOR]
//	    - name: COLOR
//	-     value: red
//	+     value: green
//	    image: app:v1
//
// It is the shortest such list, unless the texts are too far apart: then all between the first and
// the last change is one run.
func lineDiff(before, after []string) string {
	var out strings.Builder
	write := func(sign string, lines []string) {
		for _, line := range lines {
			out.WriteString(sign + line + "\n")
		}
	}
	if len(before) == 0 {
		write("+ ", after)
		return out.String()
	}
	shown, at := 0, "" // how far before is shown, and under which heading
	for n, run := range runs(before, after) {
		same := before[shown:run.from]
		where := run.where(before, after)
		if n > 0 {
			trail := same[:min(around, len(same))]
			write("  ", trail)
			same = same[len(trail):]
		}
		if left := len(same) - around; n == 0 || left > 0 || where != at {
			out.WriteString(strings.TrimSuffix("@@ "+where, " ") + "\n")
			same = same[max(0, left):]
		}
		write("  ", same)
		write("- ", before[run.from:run.to])
		write("+ ", after[run.newFrom:run.newTo])
		shown, at = run.to, where
	}
	if out.Len() > 0 {
		write("  ", before[shown:min(shown+around, len(before))])
	}
	return out.String()
}

// A run is lines from:to of one text where another has newFrom:newTo.
type run struct{ from, to, newFrom, newTo int }

// runs returns how one text becomes another. Time and memory are those of the differences, squared,
// not of the texts.
func runs(before, after []string) []run {
	start := 0
	for start < len(before) && start < len(after) && before[start] == after[start] {
		start++
	}
	end, newEnd := len(before), len(after)
	for end > start && newEnd > start && before[end-1] == after[newEnd-1] {
		end, newEnd = end-1, newEnd-1
	}
	if start == end && start == newEnd {
		return nil
	}
	old, now := before[start:end], after[start:newEnd]
	steps := edits(old, now)
	if steps == nil {
		return []run{{start, end, start, newEnd}}
	}
	var all []run // from the last to the first
	x, y := len(old), len(now)
	for d := len(steps) - 1; d > 0; d-- {
		fromX, fromY, thenX, thenY := steps.step(d, x-y)
		r := run{start + fromX, start + thenX, start + fromY, start + thenY}
		if n := len(all); n > 0 && all[n-1].from == r.to && all[n-1].newFrom == r.newTo {
			all[n-1].from, all[n-1].newFrom = r.from, r.newFrom
		} else {
			all = append(all, r)
		}
		x, y = fromX, fromY
	}
	slices.Reverse(all)
	return all
}

// reached is, for each number of edits d, how many lines of the first text are done at best on the
// diagonals -d, -d+2, ... d; the diagonal is by how many lines more of the first than of the second
// are done. It is Myers' algorithm: An O(ND) Difference Algorithm, 1986.
type reached [][]int32

// edits returns nil if there are too many.
func edits(old, now []string) reached {
	var all reached
	for d := 0; d <= far && d <= len(old)+len(now); d++ {
		all = append(all, make([]int32, d+1))
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				_, _, x, _ = all.step(d, k)
			}
			for x < len(old) && x-k < len(now) && x-k >= 0 && old[x] == now[x-k] {
				x++
			}
			all[d][(k+d)/2] = int32(x)
			if x >= len(old) && x-k >= len(now) {
				return all
			}
		}
	}
	return nil
}

// step returns the edit with which, after d-1 others, diagonal k is reached best: from where, and
// to where.
func (r reached) step(d, k int) (x, y, toX, toY int) {
	at := func(k int) int { return int(r[d-1][(k+d-1)/2]) }
	if k == -d || k != d && at(k-1) < at(k+1) {
		x = at(k + 1) // a line put in
		return x, x - k - 1, x, x - k
	}
	x = at(k - 1) // a line taken out
	return x, x - k + 1, x + 1, x - k + 1
}

// where returns the path of the first line of a run: the keys above it, and the labels of list
// items.
func (r run) where(before, after []string) string {
	if r.newFrom < r.newTo {
		return place(after, r.newFrom)
	}
	return place(before, r.from)
}

// place returns the path to a line, as in spec.containers[app].
func place(lines []string, at int) (text string) {
	above := func(step string) {
		if text != "" && text[0] != '[' {
			step += "."
		}
		text = step + text
	}
	_, column, _ := parts(lines[at])
	keyBelow, itemBelow := column, column // what is above the line is left of these columns
	for i := at; i >= 0; i-- {
		item, column, key := parts(lines[i])
		if key != "" && column < keyBelow {
			above(key)
			keyBelow, itemBelow = column, column
		}
		if item >= 0 && item < itemBelow {
			if name := label(lines, i, item+2); name != "" {
				above("[" + name + "]")
			}
			keyBelow, itemBelow = item+1, item // a list is not always further right than its key
		}
	}
	return text
}

// label returns the identity of the list item that begins in a line: the keys by which Kubernetes
// merges lists.
func label(lines []string, first, column int) string {
	found := map[string]string{}
	for i := first; i < len(lines); i++ {
		_, at, key := parts(lines[i])
		if i > first && strings.TrimSpace(lines[i]) != "" && len(lines[i])-len(strings.TrimLeft(lines[i], " ")) < column {
			break
		}
		if at == column && key != "" {
			_, value, _ := strings.Cut(lines[i][at:], ":")
			found[key] = strings.Trim(value, ` "'`)
		}
	}
	for _, key := range []string{"name", "type", "key", "containerPort", "port", "mountPath", "ip", "uid"} {
		if value := found[key]; value != "" {
			return value
		}
	}
	return ""
}

// parts returns of a line of YAML where the mark of an item is, or -1, where its text begins, and
// the key that is there, or "".
func parts(line string) (item, column int, key string) {
	text := strings.TrimLeft(line, " ")
	column, item = len(line)-len(text), -1
	if after, ok := strings.CutPrefix(text, "- "); ok {
		item, column, text = column, column+2, after
	}
	key, _, ok := strings.Cut(text+" ", ": ")
	if !ok {
		key = ""
	}
	return item, column, strings.Trim(key, `"`)
}
