package storage

import (
	"fmt"
	"hash/maphash"
	"sync"
	"testing"
	"time"
)

func TestKeysOfOneTagAreTwo(t *testing.T) {
	m, of := newSightings(sightingPlaces), map[uint32]string{} // one set
	for i := 0; ; i++ {
		key := fmt.Sprint(i)
		tag := uint32(maphash.String(m.seed, key))
		other, taken := of[tag]
		if of[tag] = key; !taken {
			continue
		}
		m.put(other, time.Time{}, Record{Version: 1})
		if m.glance([]byte(key)) != nil {
			t.Fatalf("%q is taken for %q", key, other)
		}
		m.put(key, time.Time{}, Record{Version: 2})
		m.forget(key)
		if s := m.glance([]byte(other)); s == nil || s.record.Version != 1 {
			t.Fatalf("%q gave way to %q", other, key)
		}
		return
	}
}

// Whoever puts it, and forgets it.
func TestAKeyIsRememberedOnce(t *testing.T) {
	m := newSightings(3 * sightingPlaces)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 5000 {
				key := fmt.Sprint(i % 11)
				if m.put(key, time.Time{}, Record{Version: Version(i)}); i%7 == 0 {
					m.forget(key)
				}
				if s := m.glance([]byte(key)); s != nil && s.key != key {
					t.Errorf("%q is taken for %q", key, s.key)
				}
			}
		})
	}
	group.Wait()
	for b := range m.blocks {
		block := m.blocks[b].Load()
		for set := range block {
			kept := make(map[string]bool)
			for place := range block[set].seen {
				s := block[set].seen[place].Load()
				switch {
				case s == nil:
				case kept[s.key]:
					t.Errorf("%q is there twice", s.key)
				default:
					kept[s.key] = true
				}
			}
		}
	}
}
