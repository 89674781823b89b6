package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/bench/vectors/worker"
)

// marked is the share of the rows that a table marks in a column, for searches with a condition.
const marked = 0.01

// tables are the contenders that hold rows and index in a table, ours and LanceDB's.
func tables(s *points.Set) []*contender {
	inLists := strconv.Itoa(lists(s.Len()))
	const most = 200
	return []*contender{
		{name: "table, hnsw_tq8", program: "overlake", ours: true, marks: true, most: most,
			build:   worker.Words{"kind": "table", "index": "hnsw_tq8", "m": strconv.Itoa(links), "ef_construction": strconv.Itoa(pool)},
			efforts: append(across("ef", []int{16, 32, 64, 96, 128, 192, 256, 384}, "rerank", 20), effort{curve: asBuilt})},
		{name: "table, ivf", program: "overlake", ours: true, marks: true, most: most,
			build:   worker.Words{"kind": "table", "index": "ivf", "lists": inLists},
			efforts: append(across("probes", []int{8, 16, 32, 48, 64, 96, 128}, "rerank", 80, 160), effort{curve: asBuilt})},
		{name: "table, LanceDB IVF_RQ", program: "lancedb", marks: true, most: 50,
			build: worker.Words{"type": "IVF_RQ", "lists": inLists}, efforts: across("probes", []int{4, 8, 16, 32, 64, 128}, "rerank", 5, 20)},
		{name: "table, LanceDB IVF_HNSW_SQ", program: "lancedb", marks: true, most: 50,
			build: graphWords(worker.Words{"type": "IVF_HNSW_SQ", "lists": "1"}), efforts: across("ef", []int{16, 32, 64, 128, 256, 512}, "probes", 1)},
	}
}

// engine measures tables by their interfaces for programs, all of the search from the call to the rows, without a condition
// and with one that few rows meet.
func (w *workshop) engine(ctx context.Context) {
	if !made(w.set) {
		return
	}
	few := w.set.Uncorrelated(marked, 5)
	var err error
	if w.few, err = w.file("few", few.Allowed); err != nil {
		w.b.say("%v", err)
		return
	}
	entrants := w.enter(tables(w.set))
	rows := w.set.Queries[0].Rows
	rows = rows[:min(len(rows), 200*w.set.Dim)]
	file, err := w.file("table-queries", rows)
	if err != nil {
		w.b.say("%v", err)
		return
	}
	for _, filtered := range []bool{false, true} {
		if ctx.Err() != nil {
			return
		}
		a := asked{list: "tables", file: file, count: len(rows) / w.set.Dim, enough: enough}
		where, g := "", least(5)
		if filtered {
			a.filter, a.allowed = fmt.Sprintf("a column, %g %%", 100*marked), w.few
			a.truth = w.set.Truth(rows, k, &few)
			where, g = ", "+a.filter, least(20)
		} else {
			a.truth = w.set.Truth(rows, k, nil)
		}
		w.b.say("tables%s", where)
		entrants = slices.DeleteFunc(entrants, func(e *entrant) bool { return w.failed[e.name] })
		points := w.measure(entrants, a)
		for _, target := range targets[1:] {
			peer, theirs := "LanceDB", 0.0
			for _, e := range entrants {
				if rate, _ := at(of(points, e.name), target); !e.ours && rate > theirs {
					peer, theirs = e.name, rate
				}
			}
			for _, e := range entrants {
				if rate, _ := at(of(points, e.name), target); e.ours {
					w.b.results.compare(fmt.Sprintf("%s: %s%s, queries at recall %.2f", w.set.Name, e.name, where, target), rate, peer, theirs, "q/s", g)
				}
			}
		}
	}
	peer := w.entrants["table, LanceDB IVF_RQ"]
	for _, e := range entrants {
		if e.ours && peer != nil {
			w.b.results.compare(fmt.Sprintf("%s: %s, build", w.set.Name, e.name), e.built.CPU, peer.name, peer.built.CPU, "s", most(0.5))
		}
	}
}
