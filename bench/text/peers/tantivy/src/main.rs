//! Answers the questions of bench/text with Tantivy; worker.go says how they look.

use std::io::{BufRead, Write};
use std::path::Path;

use serde_json::{json, Value};
use tantivy::collector::{Count, TopDocs};
use tantivy::query::{BooleanQuery, Occur, PhraseQuery, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{TextAnalyzer, WhitespaceTokenizer};
use tantivy::{Index, IndexWriter, Searcher, TantivyDocument, Term};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Seconds of processor time of all threads.
fn processor() -> f64 {
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}

struct Worker {
    searcher: Searcher,
    body: Field,
}

fn build(q: &Value) -> Result<(Worker, Value)> {
    let folder = Path::new(q["folder"].as_str().ok_or("no folder")?).join("tantivy");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let texts = std::fs::read_to_string(q["texts"].as_str().ok_or("no texts")?)?;
    let before = processor();
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("tokens")
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let body = schema.add_text_field("body", TextOptions::default().set_indexing_options(indexing));
    let index = Index::create_in_dir(&folder, schema.build())?;
    index
        .tokenizers()
        .register("tokens", TextAnalyzer::from(WhitespaceTokenizer::default()));
    let mut writer: IndexWriter<TantivyDocument> = index.writer_with_num_threads(1, 1 << 30)?;
    for line in texts.lines() {
        let mut d = TantivyDocument::new();
        d.add_text(body, line);
        writer.add_document(d)?;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    let cpu = processor() - before;
    let searcher = index.reader()?.searcher();
    if searcher.segment_readers().len() != 1 {
        return Err("more than one segment".into());
    }
    let mut bytes = 0;
    for f in std::fs::read_dir(&folder)? {
        bytes += f?.metadata()?.len();
    }
    Ok((Worker { searcher, body }, json!({"name": tantivy::version_string(), "cpu": cpu, "bytes": bytes})))
}

fn query(class: &str, terms: &[Term]) -> Box<dyn Query> {
    let one = |t: &Term| -> Box<dyn Query> { Box::new(TermQuery::new(t.clone(), IndexRecordOption::WithFreqs)) };
    match class {
        "term" => one(&terms[0]),
        "phrase" => Box::new(PhraseQuery::new(terms.to_vec())),
        _ => {
            let occur = if class == "and" { Occur::Must } else { Occur::Should };
            Box::new(BooleanQuery::new(terms.iter().map(|t| (occur, one(t))).collect()))
        }
    }
}

fn ask(w: &Worker, q: &Value) -> Result<Value> {
    let class = q["class"].as_str().ok_or("no class")?;
    let k = q["k"].as_u64().ok_or("no k")? as usize;
    let count = q["count"].as_bool().unwrap_or(false);
    let mut queries = Vec::new();
    for terms in q["queries"].as_array().ok_or("no queries")? {
        let terms: Vec<Term> = terms
            .as_array()
            .ok_or("no terms")?
            .iter()
            .map(|t| Term::from_field_text(w.body, t.as_str().unwrap_or("")))
            .collect();
        queries.push(query(class, &terms));
    }
    let mut found = Vec::with_capacity(queries.len());
    let before = processor();
    for x in &queries {
        // Counting as well, all rows are looked at; without, Tantivy leaves out what cannot be among the best.
        if count {
            found.push(w.searcher.search(x.as_ref(), &(TopDocs::with_limit(k).order_by_score(), Count))?);
        } else {
            found.push((w.searcher.search(x.as_ref(), &TopDocs::with_limit(k).order_by_score())?, 0));
        }
    }
    let mut a = json!({"cpu": processor() - before});
    if q["answers"].as_bool().unwrap_or(false) {
        a["hits"] = found.iter().map(|f| f.0.iter().map(|h| h.1.doc_id).collect::<Vec<_>>()).collect::<Vec<_>>().into();
        a["scores"] = found.iter().map(|f| f.0.iter().map(|h| h.0).collect::<Vec<_>>()).collect::<Vec<_>>().into();
        a["counts"] = found.iter().map(|f| f.1).collect::<Vec<_>>().into();
    }
    Ok(a)
}

fn main() -> Result<()> {
    let mut worker = None;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let q: Value = serde_json::from_str(&line?)?;
        let a = match (q["op"].as_str(), &worker) {
            (Some("build"), _) => build(&q).map(|(w, a)| {
                worker = Some(w);
                a
            }),
            (Some("ask"), Some(w)) => ask(w, &q),
            _ => Err("this is no question".into()),
        };
        let a = a.unwrap_or_else(|e| json!({"error": e.to_string()}));
        writeln!(out, "{a}")?;
        out.flush()?;
    }
    Ok(())
}
