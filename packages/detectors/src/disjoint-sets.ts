/**
 * DisjointSets: union-find over 0 … n−1 whose sets can also be listed.
 *
 * Path halving and union by size. The members of a set form a ring through `next`, so that joining two sets
 * is a swap of two links and listing one takes time in its size.
 */

export class DisjointSets {
  private readonly parent: Uint32Array
  private readonly size: Uint32Array
  private readonly next: Uint32Array

  constructor(n: number) {
    this.parent = new Uint32Array(n)
    this.next = new Uint32Array(n)
    for (let i = 0; i < n; i++) {
      this.parent[i] = i
      this.next[i] = i
    }
    this.size = new Uint32Array(n).fill(1)
  }

  /** The representative of a's set. */
  find(a: number): number {
    const { parent } = this
    let x = a
    while (parent[x] !== x) {
      parent[x] = parent[parent[x]!]!
      x = parent[x]!
    }
    return x
  }

  /** Joins two sets; returns the representative that gave way, −1 when they were one already. */
  join(a: number, b: number): number {
    let keep = this.find(a)
    let lose = this.find(b)
    if (keep === lose) return -1
    if (this.size[keep]! < this.size[lose]!) [keep, lose] = [lose, keep]
    this.parent[lose] = keep
    this.size[keep]! += this.size[lose]!
    const link = this.next[keep]!
    this.next[keep] = this.next[lose]!
    this.next[lose] = link
    return lose
  }

  /** The member after `a` in its set; following it from a leads through the whole set back to a. */
  after(a: number): number {
    return this.next[a]!
  }
}
