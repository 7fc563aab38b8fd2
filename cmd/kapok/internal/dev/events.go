package dev

import (
	"context"
	"fmt"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// printEvents prints the events that are recorded from now on, until ctx is done.
func (d *dev) printEvents(ctx context.Context) {
	seen := map[string]string{}
	for ctx.Err() == nil {
		w, err := d.client.Watch(ctx, &eventsv1.EventList{})
		if err == nil {
			for event := range w.ResultChan() {
				e, ok := event.Object.(*eventsv1.Event)
				if !ok || event.Type == watch.Deleted {
					continue
				}
				text := describe(e)
				if key := e.Namespace + "/" + e.Name; seen[key] != text {
					seen[key] = text
					d.lines.printf("event", "%s", text)
				}
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func describe(e *eventsv1.Event) string {
	text := fmt.Sprintf("%s %s: %s: %s", e.Regarding.Kind, e.Regarding.Namespace+"/"+e.Regarding.Name, e.Reason, e.Note)
	if e.Type != "" && e.Type != "Normal" {
		text = e.Type + ": " + text
	}
	switch {
	case e.Series != nil && e.Series.Count > 1:
		text += fmt.Sprintf(" (%d times)", e.Series.Count)
	case e.DeprecatedCount > 1:
		text += fmt.Sprintf(" (%d times)", e.DeprecatedCount)
	}
	return text
}
