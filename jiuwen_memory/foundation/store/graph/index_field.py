"""Vector index types a graph store can be built with."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class VectorField(BaseModel):
    """The dense index of a store: its type, and the parameters for building and for searching."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    index_type: Literal["AUTO", "FLAT", "HNSW", "IVF"]

    def build_params(self) -> dict[str, int]:
        """Return the index parameters used when the collection is created."""
        return {}

    def search_params(self) -> dict[str, int]:
        """Return the index parameters sent with each search."""
        return {}


class MilvusAUTO(VectorField):
    """Milvus chooses. On Milvus Lite this means FLAT: its graph indexes lose most hits under a user filter."""

    index_type: Literal["AUTO"] = "AUTO"


class MilvusFLAT(VectorField):
    """Exact search."""

    index_type: Literal["FLAT"] = "FLAT"


class MilvusHNSW(VectorField):
    """Graph index: `M` links per node, `ef_construction` and `ef` candidates while building and searching."""

    index_type: Literal["HNSW"] = "HNSW"
    M: int = Field(default=30, ge=2, le=2048)
    ef_construction: int = Field(default=360, ge=1)
    ef: int = Field(default=200, ge=1, le=32768)

    def build_params(self) -> dict[str, int]:
        return {"M": self.M, "efConstruction": self.ef_construction}

    def search_params(self) -> dict[str, int]:
        return {"ef": self.ef}


class MilvusIVF(VectorField):
    """Inverted lists: `nlist` clusters, of which `nprobe` are searched."""

    index_type: Literal["IVF"] = "IVF"
    nlist: int = Field(default=128, ge=1, le=65536)
    nprobe: int = Field(default=16, ge=1, le=65536)

    def build_params(self) -> dict[str, int]:
        return {"nlist": self.nlist}

    def search_params(self) -> dict[str, int]:
        return {"nprobe": self.nprobe}
